"""Prepared products: one artifact linearises at a point, applies many times, and moves to the next point.

The pass nabla-split divides a product ``(x, v, *data) -> (by-products, A(x) v)`` into the part that x and the data determine, and
the rest, which is linear in v. `update` runs the first half and stores its residuals in global variables. `apply` and similar
entry points read them. This works for Hessians, Gauss-Newton, Fisher and Jacobian matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from iree.compiler import ir

from nabla_mlir import numpy as nnp
from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype
from nabla_mlir.passes.split.split import Split, split_function
from nabla_mlir.prepared.blocks import Form, form_of_block, in_a_row
from nabla_mlir.prepared.checks import check_linear_map, chosen_entry_points
from nabla_mlir.prepared.families import Family, hessian_family, jacobian_family, of_x
from nabla_mlir.prepared.stateful import Method, assemble
from nabla_mlir.staging.positions import Argnums
from nabla_mlir.staging.specs import Spec, as_spec
from nabla_mlir.staging.stages import Lowered, trace
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.regions import emit_call
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.curvature import empirical_fisher_product, fisher_product, gauss_newton_product
from nabla_mlir.transforms.gradients import grad
from nabla_mlir.transforms.vectorize import vmap

_DEFAULT = ("value", "gradient", "update", "apply", "apply_transposed")  # other entry points are compiled on request
_INTO = ("update", "apply", "apply_block", "apply_transposed", "apply_transposed_block")  # these also exist as NAME_into


class Prepared(Lowered):
    """A module with the entry points of a prepared product. It compiles and prints like any other stage."""


def hvp_module(
    f: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    argnums: Argnums = 0,
    block: int = thresholds.BLOCK,
    max_residual_bytes: int | None = None,
    entry_points: Sequence[str] | str = (),
) -> Prepared:
    """The Hessian of a scalar function as one artifact, which stores its linearisation on the device.

    Entry points (H is the Hessian at the point of the last `update`). By default the module has the first four, which multiply;
    name others in `entry_points`, since each takes time to compile:

    - ``value(x, *data)``, ``gradient(x, *data)``;
    - ``update(x, *data)``: moves to another point, and returns the value and the gradient there;
    - ``apply(v)``: H v;
    - ``apply_block(V)``: H v for `block` vectors at once, along a leading axis;
    - ``quadratic(v)``: vᵀ H v;
    - ``apply_at(x, v, *data)``, ``value_grad_hvp(x, v, *data)``: compute everything, without using the state;
    - ``is_finite()``: True if all stored residuals are finite;
    - ``self_check()``: the relative errors of symmetry, of linearity, and of a finite difference of the gradient, with the
      errors that are expected in this dtype;
    - ``update_into(x, *data, out)``, ``apply_into(v, out)``, ``apply_block_into(V, out)``: the same, with the results written
      to the arrays in `out`, of NumPy or of the device. `out` is a pytree like the result.

    All of them are functions of the file, for C and for Python. iree-run-module calls one function in a process, so use
    `apply_at` and `value_grad_hvp` with it. Functions that use the state return its version after their results.

    `apply` and similar entry points fail before the first `update`. `update` copies the arguments that it stores. After each
    entry point has been called once, no call allocates memory on a CPU, because freed memory is reused.

    Args:
      f: a scalar function.
      x_spec: the pytree of specs of the argument at `argnums`; for several positions, a tuple of such pytrees.
      data_specs: the specs of the other arguments, in order.
      argnums: the position(s) of the differentiated arguments; the other arguments are data.
      block: the number of vectors of `apply_block`.
      max_residual_bytes: the largest size of the state; residuals that do not fit are recomputed in each `apply`.
      entry_points: the names of the entry points to include, or "all".

    Raises:
      PassError: the residuals cannot be made that small.
      TraceError: an entry point does not exist.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> stage = nm.hvp_module(lambda x: (x ** 3).sum(), nm.spec(2, "f64"), entry_points=("update", "apply"))
      >>> module = stage.compile()
      >>> value, gradient = module.update(np.array([1.0, 2.0])).values()
      >>> module.apply(np.array([1.0, 1.0])).tolist()
      [6.0, 12.0]
    """
    g, names = of_x(f, argnums, len(data_specs))
    return _module(hessian_family(g), names, x_spec, data_specs, block, max_residual_bytes, entry_points)


def ggnvp_module(
    model: Callable[..., Any],
    loss: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    block: int = thresholds.BLOCK,
    max_residual_bytes: int | None = None,
    entry_points: Sequence[str] | str = (),
) -> Prepared:
    """The Gauss-Newton matrix of ``loss(model(x, *data), *data)``, prepared as in `hvp_module`; see `nm.ggnvp`.

    Both functions get all data, such as ``model(w, rows, targets)`` and ``loss(prediction, rows, targets)``.
    """
    whole = lambda x, *data: loss(model(x, *data), *data)  # noqa: E731
    family = Family(gauss_newton_product(model, loss), {"value": whole, "gradient": grad(whole)})
    names = of_x(model, 0, len(data_specs))[1]
    return _module(family, names, x_spec, data_specs, block, max_residual_bytes, entry_points)


def fisher_module(
    model: Callable[..., Any],
    distribution: str,
    x_spec: PyTree,
    *data_specs: PyTree,
    block: int = thresholds.BLOCK,
    max_residual_bytes: int | None = None,
    entry_points: Sequence[str] | str = (),
) -> Prepared:
    """The Fisher matrix of a model, prepared as in `hvp_module`; `value` is the result of the model. See `nm.fishervp`."""
    family = Family(fisher_product(model, distribution), {"value": model})
    names = of_x(model, 0, len(data_specs))[1]
    return _module(family, names, x_spec, data_specs, block, max_residual_bytes, entry_points)


def empirical_fisher_module(
    losses: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    block: int = thresholds.BLOCK,
    max_residual_bytes: int | None = None,
    entry_points: Sequence[str] | str = (),
) -> Prepared:
    """The empirical Fisher matrix, prepared as in `hvp_module`; see `nm.empirical_fishervp`."""
    mean = lambda x, *data: nnp.mean(losses(x, *data))  # noqa: E731
    family = Family(empirical_fisher_product(losses), {"value": mean, "gradient": grad(mean)})
    names = of_x(losses, 0, len(data_specs))[1]
    return _module(family, names, x_spec, data_specs, block, max_residual_bytes, entry_points)


def jacobian_module(
    f: Callable[..., Any],
    x_spec: PyTree,
    *data_specs: PyTree,
    argnums: Argnums = 0,
    block: int = thresholds.BLOCK,
    max_residual_bytes: int | None = None,
    entry_points: Sequence[str] | str = (),
) -> Prepared:
    """The Jacobian of a function, prepared as in `hvp_module`: `apply` is J v, and `apply_transposed` is Jᵀ u.

    Both have a block form. `update` and `value` return f(x).
    """
    g, names = of_x(f, argnums, len(data_specs))
    return _module(jacobian_family(g, x_spec, data_specs), names, x_spec, data_specs, block, max_residual_bytes, entry_points)


# ---------------------------------------------------------------- the entry points


def _module(
    family: Family,
    names: list[str],
    x: Any,
    data: tuple[Any, ...],
    block: int,
    limit: int | None,
    entry_points: Sequence[str] | str,
) -> Prepared:
    """The stage with the requested entry points of a family of matrices A(x).

    Args:
      family: the products that define the matrix.
      names: the names of the arguments (x, *data).
      x, data: pytrees of specs of these arguments.
      block: the number of vectors of an entry point such as `apply_block`.
      limit: the largest size in bytes of the residuals; None means any. Others are recomputed in each product.
      entry_points: the requested names, "all", or nothing for the default.
    """
    methods = Methods(family, names, x, data, block, limit)
    available = methods.all()
    names_of_points = chosen_entry_points(available, entry_points, _DEFAULT)
    module, entries = assemble(methods.state, [available[name] for name in names_of_points])
    return Prepared(module, entries)


class Methods:
    """The entry points of a prepared product, made from its two halves."""

    family: Family
    block: int
    x: Any
    data: tuple[Any, ...]
    byproducts_spec: pytree.TreeSpec
    products_spec: pytree.TreeSpec

    def __init__(self, family: Family, names: list[str], x: Any, data: tuple[Any, ...], block: int, limit: int | None):
        """Traces the product of a family, and splits it into the half that computes residuals and the half that reads them.

        The arguments are those of `_module`.
        """
        self.family, self.block = family, block
        self.x, self.data = _specs(x), tuple(_specs(d) for d in data)
        self.args: dict[str, Any] = dict(zip(names, [self.x, *self.data], strict=True))
        two = family.transposed is not None
        self.likes: list[Any] = [self.x, _specs(family.transposed)] if two else [self.x]
        v = tuple(self.likes) if two else self.x

        def whole(x: Any, v: Any, *data: Any) -> tuple[Any, tuple[Any, ...]]:
            """The by-products, such as value and gradient, and the products as a tuple, also if there is only one."""
            byproducts, products = family.product(x, v, *data)
            return byproducts, products if two else (products,)

        stage = trace(whole, self.x, v, *self.data, name="product").lower()
        entry = stage.entries[0]
        self.byproducts_spec, self.products_spec = entry.out_spec.children()
        counts = [pytree.flatten(a)[1].num_leaves for a in (self.x, v)]
        # The arguments are the leaves of x, of v, then of data; those of v alone are not known in `update`.
        known = [i for i in range(len(entry.inputs)) if not counts[0] <= i < sum(counts)]
        func = stage.module.body.operations[0].operation
        with context(), ir.Location.unknown():
            self.split: Split = split_function(func, known, limit)
        self.stage = stage  # the stage owns both halves
        self.state: dict[str, Spec] = self._state(entry.outputs)

    def _state(self, outputs: Sequence[Spec]) -> dict[str, Spec]:
        """The specs of the arrays that `update` stores, by name: residuals, products that do not depend on v, and the point.

        `outputs` has the specs of by-products and products. Raises TraceError if a by-product is not computed by the first half.
        """
        split, count = self.split, self.byproducts_spec.num_leaves
        if not set(range(count)) <= set(split.early):
            raise TraceError(
                "a prepared product requires its by-products in the first half, got max_residual_bytes that is too small for them.",
                where=user_frame(),
                help="allow more.",
            )
        results = list(split.known.regions[0].blocks[0].operations)[-1].operation.operands
        residuals = [Spec(*shape_and_dtype(v.type)) for v in list(results)[len(split.early) :]]
        state = {f"residual_{i}": spec for i, spec in enumerate(residuals)}
        state |= {f"product_{i}": outputs[i] for i in split.early if i >= count}
        points = pytree.flatten((self.x, *self.data))[0]
        return state | {f"point_{i}": spec for i, spec in enumerate(points)}

    @property
    def read_names(self) -> tuple[str, ...]:
        """The names of the arrays of the state that a product reads: all except those of the point."""
        return tuple(n for n in self.state if not n.startswith("point"))

    def products(self, state: dict[str, Tensor], vs: Sequence[Any]) -> tuple[Any, ...]:
        """The products with `vs`, a pytree of tensors for each map, from the tensors of the state, which are given by name."""
        split = self.split
        residuals = [x for n, x in state.items() if n.startswith("residual")]
        late = emit_call(split.rest, [*residuals, *pytree.flatten(tuple(vs))[0]])
        products = dict(zip(split.late, late, strict=True))
        count = self.byproducts_spec.num_leaves
        numbers = range(count, count + self.products_spec.num_leaves)
        leaves = [products[i] if i in products else state[f"product_{i}"] for i in numbers]
        return pytree.unflatten(self.products_spec, leaves)

    def apply(self, state: dict[str, Tensor], v: Any, which: int = 0) -> Any:
        """The product of the matrix (`which` is 0) or of its transpose (1) with v, from the residuals in the state.

        The other vector is zero, and its product is dead code that is removed later.
        """
        vs = [v if k == which else _zeros(like) for k, like in enumerate(self.likes)]
        return self.products(state, vs)[which]

    def update(self, _: Any, x: Any, *data: Any) -> tuple[Any, dict[str, Tensor]]:
        """The by-products at a point (x, *data), and the new state, array by name; the old state (`_`) is not read."""
        split, count = self.split, self.byproducts_spec.num_leaves
        point = [as_tensor(leaf) for leaf in pytree.flatten((x, *data))[0]]
        results = emit_call(split.known, point)
        early = dict(zip(split.early, results, strict=False))
        new = [*results[len(split.early) :], *(early[i] for i in split.early if i >= count), *point]
        byproducts = pytree.unflatten(self.byproducts_spec, [early[i] for i in range(count)])
        return byproducts, dict(zip(self.state, new, strict=True))

    def all(self) -> dict[str, Method]:
        """All entry points that the module may have, by their names."""
        family, reads, form = self.family, self.read_names, self._form_of_blocks()
        x_name, *data_names = self.args
        v_name = "v" if "v" not in self.args else "vector"
        methods = [
            Method(n, lambda _, *args, f=f: f(*args), self.args, doc=f"The {n}, without touching the state.")
            for n, f in family.direct.items()
        ]
        doc = "Moves to a point, which the entry points with a state use."
        methods.append(Method("update", self.update, self.args, writes=tuple(self.state), doc=doc))
        for k, (name, like) in enumerate(zip(("apply", "apply_transposed"), self.likes, strict=False)):
            word = ("The product with a vector", "The product of the transposed matrix with a vector")[k]
            one = lambda state, v, k=k: self.apply(state, v, k)  # noqa: E731
            many = lambda state, vs, k=k: form(lambda v: self.apply(state, v, k))(vs)  # noqa: E731
            columns = pytree_map(lambda s: Spec((self.block, *s.shape), s.dtype), like)
            methods += [
                Method(name, one, {v_name: like}, reads, doc=f"{word} at the point of the last update."),
                Method(
                    f"{name}_block", many, {v_name: columns}, reads, doc=f"{word}, for {self.block} vectors along a leading axis."
                ),
            ]
        if family.transposed is None:
            methods += self._symmetric(x_name, v_name, data_names)
        finite = lambda state: _all_finite(list(state.values()))  # noqa: E731
        methods += [
            Method("is_finite", finite, {}, reads, doc="True if all residuals of the last update are finite."),
            Method("self_check", self._self_check, {}, tuple(self.state), doc="Errors of the products, and expected errors."),
        ]
        into = [
            replace(m, name=f"{m.name}_into", doc=f"As {m.name}, with the results in memory of the caller.", into=True)
            for m in methods
            if m.name in _INTO
        ]
        return {m.name: m for m in [*methods, *into]}

    def _form_of_blocks(self) -> Form:
        """The fastest transform of the product with one vector to the product with several vectors."""
        operations = [op.operation for op in self.split.rest.regions[0].blocks[0].operations]
        return form_of_block(operations, self.split.nbytes, self.block)

    def _symmetric(self, x_name: str, v_name: str, data_names: list[str]) -> list[Method]:
        """The entry points that only a symmetric matrix has (quadratic, apply_at, value_grad_hvp); the names are of arguments."""

        def quadratic(state: dict[str, Tensor], v: Any) -> Tensor:
            """vᵀ A v, from the residuals in the state."""
            return _dot(v, self.apply(state, v))

        def apply_at(_: Any, x: Any, v: Any, *data: Any) -> Any:
            """The product at a given point, without the state."""
            return self.family.product(x, v, *data)[1]

        def all_at(_: Any, x: Any, v: Any, *data: Any) -> Any:
            """The dict of by-products, with the product in addition, at a given point and without the state."""
            byproducts, product = self.family.product(x, v, *data)
            return {**byproducts, "product": product}

        args = {x_name: self.x, v_name: self.x, **{n: self.args[n] for n in data_names}}
        return [
            Method("quadratic", quadratic, {v_name: self.x}, self.read_names, doc="vᵀ A v at the point of the last update."),
            Method("apply_at", apply_at, args, doc="The product at any point, without touching the state."),
            Method("value_grad_hvp", all_at, args, doc="By-products and product at any point, in one call."),
        ]

    def _self_check(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """The deviations, by name, of the products from linearity, symmetry and a finite difference, at the point in the state."""
        points = [state[n] for n in state if n.startswith("point")]
        _, spec = pytree.flatten((self.x, *self.data))
        x, *data = pytree.unflatten(spec, points)
        last = len(self.likes) - 1
        f = self.family.derivative_of
        form = self._form_of_blocks()
        form, size = (form, self.block) if form is vmap else (in_a_row, None)  # the same kernels as apply_block, or as apply
        return check_linear_map(
            lambda v: self.apply(state, v),
            (lambda u: self.apply(state, u, last)) if last else None,
            self.likes[0],
            self.likes[last],
            None if f is None else lambda y: f(y, *data),
            x,
            form=form,
            size=size,
            form_of_function=in_a_row,
        )


def _specs(tree: Any) -> Any:
    """The pytree with a plain spec (shape and dtype) in place of each array or spec."""
    return pytree_map(lambda leaf: Spec(as_spec(leaf).shape, as_spec(leaf).dtype), tree)


def pytree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with the function applied to each leaf."""
    leaves, spec = pytree.flatten(tree)
    return pytree.unflatten(spec, [function(leaf) for leaf in leaves])


def _zeros(like: Any) -> Any:
    """A pytree of zeros, with the shapes and dtypes of a pytree of specs."""
    return pytree_map(lambda s: full(s.shape, 0, s.dtype), like)


def _dot(a: Any, b: Any) -> Tensor:
    """The inner product of two pytrees of one structure, as a tensor without axes."""
    return sum(nnp.sum(p * q) for p, q in zip(pytree.flatten(a)[0], pytree.flatten(b)[0], strict=True))


def _all_finite(values: list[Tensor]) -> Tensor:
    """True, as a tensor, if all elements of the floating-point and complex tensors are finite."""
    checks = [nnp.all(nnp.isfinite(x)) for x in values if is_differentiable(x.dtype)]
    return functools.reduce(nnp.logical_and, checks, nnp.asarray(True))
