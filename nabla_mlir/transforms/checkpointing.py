"""Recomputation instead of storage in reverse mode: checkpoint (remat), with JAX's policies."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import check_function
from nabla_mlir.base.typing import PyTree
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import CheckpointOp
from nabla_mlir.dialects.stablehlo import Bool
from nabla_mlir.rules.checkpoint import name as name_op
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import bind_static
from nabla_mlir.staging.tracing import results_of, trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import wrap
from nabla_mlir.transforms.vectorized import per_vectorized_entry

Policy = tuple[tuple[str, ...], ...]  # words of JAX with their arguments; a value is stored if one of the words allows it
Chooser = Callable[[ir.Operation], Any]  # returns True for operations whose results may be stored
_CHOSEN = "saved by a function"


class CheckpointPolicies:
    """Policies that say which values of a checkpointed function reverse mode may store, under the names of JAX.

    Example:
      >>> checkpoint_policies.dots_saveable
      (('dots_saveable',),)
      >>> checkpoint_policies.save_only_these_names("a", "b")
      (('save_only_these_names', 'a', 'b'),)
    """

    nothing_saveable: Policy = (("nothing_saveable",),)
    everything_saveable: Policy = (("everything_saveable",),)
    dots_saveable: Policy = (("dots_saveable",),)
    checkpoint_dots = dots_saveable
    dots_with_no_batch_dims_saveable: Policy = (("dots_with_no_batch_dims_saveable",),)
    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Stores the values to which `checkpoint_name` gave one of these names."""
        return (("save_only_these_names", *names),)

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Stores the values that have a name, except these names."""
        return (("save_any_names_but_these", *names),)

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Stores every value, except those with one of these names."""
        return (("save_anything_except_these_names", *names),)

    @staticmethod
    def save_and_offload_only_these_names(**options: Any) -> Policy:
        """Stores the values with names of `names_which_can_be_saved` and `names_which_can_be_offloaded`.

        Nothing moves to another memory, whatever `offload_src` and `offload_dst` are.
        """
        names = (*options["names_which_can_be_saved"], *options["names_which_can_be_offloaded"])
        return (("save_only_these_names", *names),)

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
        """Stores the same values as `dots_with_no_batch_dims_saveable`; nothing moves to another memory."""
        return CheckpointPolicies.dots_with_no_batch_dims_saveable

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Stores the values that either policy stores."""
        return first + second


checkpoint_policies: CheckpointPolicies = CheckpointPolicies()


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    policy: Policy | Chooser | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """A function with the results of `fun`, whose intermediate values reverse mode recomputes instead of storing them.

    Args:
      fun: any function of pytrees of arrays.
      prevent_cse: True keeps the second computation separate from the first. Otherwise a compiler that merges duplicates
        may undo the recomputation.
      policy: one of `nm.checkpoint_policies`, which says which values may be stored (none by default), or a function of an
        operation of the IR that returns True if its results may be stored.
      static_argnums: positions of arguments that are not arrays.

    Example:
      >>> import nabla_mlir as nm
      >>> f = nm.checkpoint(lambda x: nm.numpy.sin(nm.numpy.sin(x)), policy=nm.checkpoint_policies.dots_saveable)
      >>> float(nm.grad(f)(0.0))
      1.0
    """
    check_function("checkpoint", fun)
    policies = CheckpointPolicies.nothing_saveable if policy is None else policy

    @functools.wraps(fun)
    def checkpoint_f(*args: Any, **kwargs: Any) -> Any:
        """The result of `fun`, whose operations are in an `ad.checkpoint`."""
        dynamic, dynamic_arguments = bind_static("checkpoint", fun, args, static_argnums)

        def run(*values: Any, **kwargs: Any) -> Any:
            """The result for `values`, the arguments that are not static."""
            return _emit(functools.partial(dynamic, *values, **kwargs), policies, prevent_cse)

        return staged(per_vectorized_entry(run))(*dynamic_arguments, **kwargs)

    return checkpoint_f


remat = checkpoint


def _emit(call: Callable[[], Any], policy: Policy | Chooser, prevent_cse: bool) -> Any:
    """The value of `call`, whose operations are emitted into the region of an `ad.checkpoint`.

    `policy` names the values to store, or chooses operations. `prevent_cse` keeps the recomputation apart from the first
    computation.
    """
    box: dict[str, Any] = {}

    def body() -> list[Any]:
        leaves, box["spec"] = pytree.flatten(call())
        return leaves

    block, _, outs = trace_region(body, [], "a checkpointed function")
    policies = _name_chosen(block, policy) if callable(policy) else policy
    words = [ir.ArrayAttr.get([ir.StringAttr.get(word) for word in words]) for words in policies]
    flags = {"prevent_cse": Bool.encode(prevent_cse), "recompute": Bool.encode(False)}
    op = stablehlo.emit(
        CheckpointOp.name,
        [],
        results=[out.value.type for out in outs],
        attributes={"policies": ir.ArrayAttr.get(words), **flags},
        regions=1,
    )
    block.append_to(op.regions[0])
    return pytree.unflatten(box["spec"], results_of(op, outs))


def checkpoint_name(x: PyTree, name: str) -> PyTree:
    """The value, with a name for the policies of `checkpoint`. It applies to every leaf of a pytree.

    Example:
      >>> import nabla_mlir as nm
      >>> float(nm.checkpoint_name(2.0, "two"))
      2.0
    """

    def run(x: Any) -> Any:
        leaves, spec = pytree.flatten(x)
        return pytree.unflatten(spec, [name_op(as_tensor(leaf), name=name) for leaf in leaves])

    return staged(run)(x)


def _name_chosen(block: ir.Block, chooser: Chooser) -> Policy:
    """Names the results of the operations that `chooser` accepts; returns the policy that stores values of this name."""
    operations = [op.operation for op in block.operations]
    for op, following in itertools.pairwise(operations):
        if not chooser(op):
            continue
        with ir.InsertionPoint(following), op.location:
            for result in op.results:
                named = name_op(wrap(result), name=_CHOSEN).value
                result.replace_all_uses_except(named, named.owner.operation)  # all readers but `name_op` read the named value
    return CheckpointPolicies.save_only_these_names(_CHOSEN)
