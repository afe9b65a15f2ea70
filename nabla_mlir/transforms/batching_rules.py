"""Functions with a custom rule for `vmap`: custom_vmap and sequential_vmap, with JAX's signatures.

The rule is traced where the function is called inside a map. It gets all entries, gathered along the axis of the map, and each
entry reads its own part of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import RuleUndefinedError, TreeError, user_frame
from nabla_mlir.dialects.batch import free_axes
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import positional
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.regions import reads_of
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.collectives import BoundAxis, gathered, innermost_axis, own_part
from nabla_mlir.transforms.scans import map as each_of


class custom_vmap:  # noqa: N801  # a decorator
    """Decorator: a function with a custom rule for `vmap`, which `def_vmap` sets.

    With several maps, the rule applies to the innermost. Derivatives are those of the code of the rule.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> @nm.jax.custom_batching.custom_vmap
      ... def f(x, y):
      ...     return x + y
      >>> @f.def_vmap
      ... def f_rule(axis_size, in_batched, xs, ys):
      ...     return xs * ys, True
      >>> nm.vmap(f)(np.arange(3.0), np.ones(3)).tolist(), float(f(2.0, 1.0))
      ([0.0, 1.0, 2.0], 3.0)
    """

    def __init__(self, fun: Callable[..., Any]):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., tuple[Any, Any]] | None = None

    def def_vmap(self, vmap_rule: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """Sets ``vmap_rule(axis_size, in_batched, *args) -> (out, out_batched)``; usable as a decorator.

        Arguments that vary have the axis of the map in front. `in_batched`, a list of trees like the arguments, says which
        do. `out_batched`, a tree like the result, says which results do.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function; inside a map, that of its custom rule."""
        name = getattr(self.fun, "__name__", type(self.fun).__name__)
        if self.vmap_rule is None:
            raise RuleUndefinedError(
                f"custom_vmap requires a rule for {name}, got none.", where=user_frame(), help=f"define it with {name}.def_vmap."
            )
        args = positional(self.fun, args, kwargs)
        bound = innermost_axis()
        return staged(self.fun)(*args) if bound is None else self._by_rule(name, bound, args)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the function, such as `defjvp` of a function with a custom derivative."""
        if name.startswith("__") or "fun" not in vars(self):
            raise AttributeError(name)
        return getattr(self.fun, name)

    def _by_rule(self, name: str, bound: BoundAxis, args: tuple[Any, ...]) -> Any:
        """The result of the custom rule; if no argument varies, the result of the function.

        Args:
          name: the name of the function, for errors.
          bound: the axis of the innermost map.
          args: the arguments of one entry.
        """
        assert self.vmap_rule is not None
        leaves, spec = pytree.flatten(args)
        tensors, varying = [as_tensor(leaf) for leaf in leaves], _Varying(bound)
        marks = [varying(t.value) for t in tensors]
        if not any(marks):
            return self.fun(*args)
        whole = [gathered("custom_vmap", t, bound, 0) if is_batched else t for t, is_batched in zip(tensors, marks, strict=True)]
        bound.shared.update(x.value for x in whole)  # if the rule calls the function on these values, that call does not vary
        pair = self.vmap_rule(bound.size, list(pytree.unflatten(spec, marks)), *pytree.unflatten(spec, whole))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TreeError(
                f"the rule of {name} requires to return (out, out_batched), got {type(pair).__name__}.", where=user_frame()
            )
        outs, out_spec = pytree.flatten(pair[0])
        marks = pytree.flatten_like(out_spec, pair[1], f"out_batched of the rule of {name}", "its result")
        if not all(isinstance(mark, bool) for mark in marks):
            raise TreeError(f"out_batched of the rule of {name} requires truth values, got {pair[1]!r}.", where=user_frame())
        return pytree.unflatten(out_spec, [_entry_part(as_tensor(x), bound) if m else x for x, m in zip(outs, marks, strict=True)])


def _entry_part(x: Tensor, bound: BoundAxis) -> Tensor:
    """The part of `x` that belongs to the current entry of the map `bound`: x[i] for entry i."""
    if x.ndim == 0 or x.shape[0] != bound.size:
        raise TreeError(
            f"a result that varies requires {bound.size} entries along its first axis, got shape {x.shape}.", where=user_frame()
        )
    return reshaped(own_part(x, bound, 0), x.shape[1:])


class _Varying:
    """A function that tells if a value inside a map may differ between entries.

    That is so if the value depends on the map's arguments or on the index of the entry.
    """

    def __init__(self, bound: BoundAxis):
        self._bound = bound
        self._known: dict[ir.Value, bool] = dict.fromkeys(bound.shared, False)

    def __call__(self, value: ir.Value) -> bool:
        if value not in self._known:
            self._known[value] = self._is_varying(value)
        return self._known[value]

    def _is_varying(self, value: ir.Value) -> bool:
        """True if a value differs between the entries of the map."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._is_inside(owner)
        op = owner.operation
        if not self._is_inside(op.block):
            return False
        return self._bound.symbol in free_axes(op) or any(self(v) for v in reads_of(op))

    def _is_inside(self, block: ir.Block) -> bool:
        """True if a block is the body of the map or inside of it."""
        while block != self._bound.block:
            op = block.owner
            if op is None or op.operation.parent is None:
                return False
            block = op.operation.block
        return True


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that a map calls in a loop, for one entry after the other.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> nm.vmap(nm.jax.custom_batching.sequential_vmap(lambda x: x + 1))(np.arange(3)).tolist()
      [1, 2, 3]
    """
    with_rule = custom_vmap(f)

    @with_rule.def_vmap
    def rule(axis_size: int, varying: list[Any], *args: Any) -> tuple[Any, Any]:
        """The results of `f` for each entry in a loop, stacked, and a tree of True, because all results vary.

        `varying` is a tree like `args`, with True for each leaf that has an axis of entries.
        """
        leaves, spec = pytree.flatten(args)
        marks = pytree.flatten(tuple(varying))[0]

        def one(entries: list[Any]) -> Any:
            """The result of `f` for one entry; `entries` holds the leaves that vary, without the axis of entries."""
            own_entries = iter(entries)
            return f(*pytree.unflatten(spec, [next(own_entries) if m else x for x, m in zip(leaves, marks, strict=True)]))

        out = each_of(one, [x for x, m in zip(leaves, marks, strict=True) if m])
        outs, out_spec = pytree.flatten(out)
        return out, pytree.unflatten(out_spec, [True] * len(outs))

    return with_rule
