"""Functions of nabla_mlir as functions of PyTensor, for models of PyMC: one Op, with its derivatives and maps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, DtypeError, ShapeError, user_frame
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.interop.families import Family, Program, callable_of, of_arrays
from nabla_mlir.interop.jax_function import function as function_of_jax
from nabla_mlir.staging.specs import Spec


def function(source: Any, *, entry: str | None = None, target: Any = None) -> Callable[..., Any]:
    """A function of nabla_mlir as a function of PyTensor, for likelihoods and densities in models of PyMC, and their gradients.

    Each call is one Op. It has derivatives of every order in forward and reverse mode, a rule for `vectorize_graph`, and one
    for the backend JAX, which nutpie uses with `backend="jax"`.

    Args:
      source: a function of pytrees of arrays; or a stage, or an artifact, loaded or as a path, whose StableHLO is differentiated.
      entry: the entry point of an artifact; needed if there are several.
      target: where it runs, such as ``nm.CPU()``. With None it is interpreted until compiling pays.

    Returns:
      A function of pytrees of variables of PyTensor and arrays of NumPy, and of Python numbers, which are constants. Its results
      are variables. An array whose length may change must be shared (`pm.Data`), with a value of the same kind.

    Raises:
      DeployError: PyTensor is not installed.
      DtypeError: at a call, an argument is neither a tensor nor a number.
      ShapeError: at a call, the length of an axis is not known; or, at run time, results have other ranks than at the call.

    Example:
      >>> import nabla_mlir as nm, nabla_mlir.numpy as nnp, pytensor, pytensor.tensor as pt  # doctest: +SKIP
      >>> f = nm.interop.pytensor.function(lambda x: nnp.sum(nnp.sin(x["a"])))  # doctest: +SKIP
      >>> x = pt.vector("x", shape=(2,))  # doctest: +SKIP
      >>> pytensor.grad(f({"a": x}), x).eval({x: np.zeros(2)})  # doctest: +SKIP
      array([1., 1.])
    """
    op = _op()
    f = callable_of("function", source, entry)
    families: dict[Any, Family] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        """The variables of the results for pytrees of variables, arrays and numbers."""
        leaves, tree = pytree.flatten_any((args, kwargs))
        is_number = [isinstance(leaf, (bool, int, float, complex)) for leaf in leaves]
        numbers = tuple((type(leaf), leaf) if is_one else None for leaf, is_one in zip(leaves, is_number, strict=True))
        variables = [_variable(leaf) for leaf, is_one in zip(leaves, is_number, strict=True) if not is_one]
        key = tree, numbers
        if key not in families:
            families[key] = Family(of_arrays(f, tree, numbers), len(variables), target)
        node = op(families[key], tuple(map(_spec, variables))).make_node(*variables)
        return node.op.program.unflatten(node.outputs)

    return functools.wraps(f)(call) if hasattr(f, "__name__") else call


def _variable(leaf: Any) -> Any:
    """A leaf of the arguments as a variable of PyTensor; raises DtypeError for leaves that are not real numbers or arrays."""
    import pytensor.tensor as pt

    try:
        variable = pt.as_tensor_variable(leaf)
    except (TypeError, NotImplementedError, ValueError):
        variable = None
    if variable is None or np.dtype(variable.dtype).kind not in "biuf":
        kind = type(leaf).__name__ if variable is None else f"an array of {variable.dtype}"
        raise DtypeError(
            f"function requires real variables of PyTensor, arrays and numbers, got {kind}.",
            where=user_frame(),
            help="bind other arguments with functools.partial(f, ...).",
        )
    return variable


def _spec(variable: Any) -> Spec:
    """The shape and dtype of a variable; unknown lengths of a shared variable are those of its current value. Raises ShapeError if
    another length is unknown.
    """
    shape = variable.type.shape
    if None in shape and hasattr(variable, "get_value"):
        shape = variable.get_value(borrow=True).shape
    if None in shape:
        raise ShapeError(
            f"function requires arrays of known lengths, got {variable} of shape {shape}.",
            where=user_frame(),
            help="pt.specify_shape(x, (8,)), or pt.vector(shape=(8,)).",
        )
    return Spec(tuple(map(int, shape)), np.dtype(variable.dtype))


# ---------------------------------------------------------------- the Op


@functools.cache
def _op() -> Callable[[Family, tuple[Spec, ...]], Any]:
    """The class of PyTensor's Op, which is created once. An Op has a family, and specs for arguments whose shapes are unknown.
    Raises DeployError if PyTensor is not installed.
    """
    try:
        from pytensor.gradient import DisconnectedType, disconnected_type
        from pytensor.graph.basic import Apply
        from pytensor.graph.op import Op
        from pytensor.graph.replace import _vectorize_node
        from pytensor.tensor import as_tensor_variable, tensor, zeros
    except ImportError:
        raise DeployError(
            "function requires PyTensor, got an environment without it.", where=user_frame(), help="pip install 'nabla-mlir[pymc]'"
        ) from None

    class Call(Op):
        __props__ = ("family", "specs")

        def __init__(self, family: Family, specs: tuple[Spec, ...]):
            self.family, self.specs = family, specs

        def __str__(self) -> str:
            return "nabla_mlir"

        @property
        def program(self) -> Program:
            """The program for the specs."""
            return self.family.at(self.specs, tuple)

        def make_node(self, *inputs: Any) -> Any:
            """The node of a call; its results have unknown lengths if an input has unknown lengths."""
            variables = [as_tensor_variable(x) for x in inputs]
            is_open = any(None in x.type.shape for x in variables)
            outputs = [
                tensor(dtype=s.dtype.name, shape=(None,) * len(s.shape) if is_open else s.shape) for s in self.program.outputs
            ]
            return Apply(self, variables, outputs)

        def perform(self, node: Any, inputs: Sequence[Any], output_storage: Any) -> None:
            """Computes the results of a node from its inputs, and stores them."""
            arrays = [np.asarray(x) for x in inputs]
            program = _program(self.family, arrays)
            for cell, result, variable in zip(output_storage, program(arrays), node.outputs, strict=True):
                if result.ndim != variable.type.ndim:
                    raise ShapeError(
                        f"function requires results of the ranks that they had when the graph was made, got "
                        f"{result.ndim} for {variable.type.ndim}."
                    )
                cell[0] = result

        def connection_pattern(self, node: Any) -> list[list[bool]]:
            """True for each pair of an input and a result between which a derivative exists."""
            program = self.program
            return [[is_differentiable(x.dtype) and is_differentiable(y.dtype) for y in program.outputs] for x in program.inputs]

        def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            """The cotangents of the inputs, as another Op."""
            program = self.program
            wrt = tuple(i for i, s in enumerate(program.inputs) if is_differentiable(s.dtype))
            results = zip(cotangents, outputs, program.outputs, strict=True)
            active = [(ct, y, s) for ct, y, s in results if is_differentiable(s.dtype)]
            seeds = [y.zeros_like() if isinstance(ct.type, DisconnectedType) else ct.astype(s.dtype.name) for ct, y, s in active]
            specs = (*self.specs, *(s for _, _, s in active))
            slopes = iter(Call(self.family.pulled(wrt, len(seeds)), specs).make_node(*inputs, *seeds).outputs)
            return [next(slopes) if i in wrt else disconnected_type() for i in range(len(inputs))]

        def pushforward(self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
            """The tangents of the results, as another Op."""
            program = self.program
            is_given = [t is not None and not isinstance(t.type, DisconnectedType) for t in tangents]
            wrt = tuple(i for i, s in enumerate(program.inputs) if is_given[i] and is_differentiable(s.dtype))
            if not wrt:
                return [disconnected_type() for _ in program.outputs]
            specs = (*self.specs, *(self.specs[i] for i in wrt))
            vectors = [tangents[i].astype(self.specs[i].dtype.name) for i in wrt]
            results = iter(Call(self.family.pushed(wrt), specs).make_node(*inputs, *vectors).outputs)
            return [next(results) if is_differentiable(s.dtype) else zeros(s.shape, s.dtype.name) for s in program.outputs]

        # PyTensor before 3.1 uses other names for both.

        def L_op(self, inputs: Any, outputs: Any, output_grads: Any) -> list[Any]:  # noqa: N802
            return self.pullback(inputs, outputs, output_grads)

        def R_op(self, inputs: Any, eval_points: Any) -> list[Any]:  # noqa: N802
            return self.pushforward(inputs, (), eval_points)

    @_vectorize_node.register(Call)  # type: ignore[untyped-decorator]
    def _(op: Any, node: Any, *inputs: Any) -> Any:
        return _mapped(Call, op, node, inputs).outputs

    _register_in_jax(Call)
    return Call


def _mapped(make: Callable[..., Any], op: Any, node: Any, inputs: Sequence[Any]) -> Any:
    """The node of the Op `op`, mapped over the leading batch axes of its inputs; the last batch axis is mapped first.

    `make` makes an Op from a family and specs. `node` is the node without batch axes, and `inputs` are its inputs with them.
    """
    family, specs, variables = op.family, list(op.specs), list(inputs)
    counts = [x.type.ndim - old.type.ndim for x, old in zip(inputs, node.inputs, strict=True)]
    # level counts the batch axes from the last one; an input with fewer axes is not mapped at the outer levels.
    for level in range(1, max(counts) + 1):
        lengths = {i: inputs[i].type.shape[count - level] for i, count in enumerate(counts) if count >= level}
        axes: list[int | None] = [None] * len(inputs)
        longer = [n for n in lengths.values() if n != 1]
        example = next((n for n in longer if n is not None), 1)  # the length in the specs; 1 if none is known
        for i, length in lengths.items():
            if length == 1 and longer:  # it broadcasts: the same entry for all, so this input is not mapped
                variables[i] = variables[i].squeeze(axis=counts[i] - level)
                continue
            axes[i], specs[i] = 0, Spec((example, *specs[i].shape), specs[i].dtype)
        family = family.mapped(tuple(axes))
    return make(family, tuple(specs)).make_node(*variables)


def _register_in_jax(kind: Any) -> None:
    """Registers the rule for PyTensor's backend JAX for the class of Ops `kind`, if JAX is installed."""
    try:
        from pytensor.link.jax.dispatch import jax_funcify
    except ImportError:
        return

    @jax_funcify.register(kind)  # type: ignore[untyped-decorator]
    def _(op: Any, **_: Any) -> Callable[..., Any]:
        """The function that PyTensor calls in JAX programs in place of an operation."""
        family = op.family
        call = function_of_jax(lambda *arrays: family.leaves(arrays), target=family.target)

        def run(*arrays: Any) -> Any:
            """The results as a tuple, or the only one itself, as PyTensor expects."""
            results = call(*arrays)
            return results[0] if len(results) == 1 else results

        return run


def _program(family: Family, arrays: Sequence[np.ndarray]) -> Program:
    return family.at(tuple([(x.shape, x.dtype) for x in arrays]), _specs)


def _specs(kinds: tuple[Any, ...]) -> tuple[Spec, ...]:
    return tuple(Spec(shape, dtype) for shape, dtype in kinds)
