"""Functions of nabla_mlir as functions of PyTorch: one custom operation, with its derivatives and maps."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, DtypeError, ExchangeError, user_frame
from nabla_mlir.base.exchange import readable
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.interop.families import Family, Program, callable_of, of_arrays
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.staging.specs import Spec

# The family of each name in PyTorch's graphs, which the custom operation calls; names differ in each process.
_FAMILIES: dict[str, Family] = {}
_NAMES: dict[int, str] = {}  # the name of each family in the table above, by its id


def function(source: Any, *, entry: str | None = None, target: Any = None) -> Callable[..., Any]:
    """A function of nabla_mlir as a function of PyTorch, which autograd differentiates any number of times.

    Each call is one custom operation (`torch.ops.nabla_mlir.call`). It has derivatives of every order in reverse mode, a rule
    for `torch.func.vmap`, and shapes that `torch.compile` knows, so that no graph breaks. A backward pass recomputes what it
    needs of the forward pass, like a checkpoint. Tensors pass through DLPack without a copy if they are contiguous and NumPy
    has their dtype.

    Args:
      source: a function of pytrees of arrays; or a stage, or an artifact, loaded or as a path, whose StableHLO is differentiated.
      entry: the entry point of an artifact; needed if there are several.
      target: where it runs, such as ``nm.CPU()``. With None it is interpreted until compiling pays.

    Returns:
      A function of pytrees of tensors on the CPU, and of Python numbers, which are constants. Its results are tensors.

    Raises:
      DeployError: PyTorch is not installed.
      DtypeError: at a call, an argument is neither a tensor nor a number.
      ExchangeError: at a call, a tensor is on another device.

    Example:
      >>> import nabla_mlir as nm, nabla_mlir.numpy as nnp, torch  # doctest: +SKIP
      >>> f = nm.interop.torch.function(lambda x: nnp.sum(nnp.sin(x["a"])))  # doctest: +SKIP
      >>> x = torch.zeros(2, requires_grad=True)  # doctest: +SKIP
      >>> torch.autograd.grad(f({"a": x}), x)  # doctest: +SKIP
      (tensor([1., 1.]),)
    """
    operation = _operation()
    f = callable_of("function", source, entry)
    keys: dict[Any, str] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        """The results of `f` for pytrees of tensors, by one custom operation of PyTorch, whose family is made once for each
        structure.
        """
        import torch

        leaves, tree = pytree.flatten_any((args, kwargs))
        if any(isinstance(leaf, (dict, list)) for leaf in leaves):  # optree does not know the containers of PyTorch's graphs
            leaves, tree = pytree.flatten_any(_of_python((args, kwargs)))
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        numbers = tuple(None if is_one else _number(leaf) for leaf, is_one in zip(leaves, is_tensor, strict=True))
        key = keys.get((tree, numbers))
        if key is None:
            key = keys[tree, numbers] = _name_of_family(Family(of_arrays(f, tree, numbers), sum(is_tensor), target))
        tensors = [leaf for leaf, is_one in zip(leaves, is_tensor, strict=True) if is_one]
        results = operation(tensors, key)
        return _program(_FAMILIES[key], tensors).unflatten(results)

    return _in_graphs(functools.wraps(f)(call) if hasattr(f, "__name__") else call)


def _number(leaf: Any) -> Any:
    """The pair of the type and the value of a number, which makes 1 and 1.0 two keys; raises DtypeError for other leaves."""
    if isinstance(leaf, (bool, int, float, complex)):
        return type(leaf), leaf
    raise DtypeError(
        f"function requires tensors of PyTorch and Python's numbers, got {type(leaf).__name__}.",
        where=user_frame(),
        help="convert arrays with torch.from_numpy(x); capture other constants in the function.",
    )


def _of_python(tree: Any) -> Any:
    """The pytree `tree` with plain dicts and lists instead of their subclasses."""
    if isinstance(tree, dict):
        return {key: _of_python(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return (list if isinstance(tree, list) else tuple)(map(_of_python, tree))
    return tree


def _name_of_family(family: Family) -> str:
    """The name of a family in the table of families; the family is added if it is new."""
    key = _NAMES.get(id(family))
    if key is None:
        key = _NAMES[id(family)] = uuid.uuid4().hex
        _FAMILIES[key] = family
    return key


@functools.cache
def _in_graphs(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function `call` in a form that `torch.compile` puts into its graphs without an analysis of its Python code."""
    import torch

    return torch._dynamo.nonstrict_trace(call)


# ---------------------------------------------------------------- the custom operation


@functools.cache
def _operation() -> Callable[..., Any]:
    """The function that runs the custom operation on tensors and the name of a family; the operation is created once. Raises
    DeployError if PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise DeployError(
            "function requires PyTorch, got an environment without it.", where=user_frame(), help="pip install 'nabla-mlir[torch]'"
        ) from None

    @torch.library.custom_op("nabla_mlir::call", mutates_args=(), schema="(Tensor[] inputs, str key) -> Tensor[]")  # type: ignore[untyped-decorator]
    def operation(inputs: Sequence[Any], key: str) -> Sequence[Any]:
        return _results(inputs, key)

    @operation.register_fake  # type: ignore[untyped-decorator]
    def _(inputs: Sequence[Any], key: str) -> Sequence[Any]:
        outputs = _program(_FAMILIES[key], inputs).outputs
        return [torch.empty(spec.shape, dtype=_of_torch(spec.dtype)) for spec in outputs]

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        """Stores the inputs and the name of the family for the backward pass."""
        tensors, ctx.key = inputs
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, cotangents: Any) -> Any:
        """The cotangents of the inputs, by the derivative of the operation; None for inputs that need none."""
        inputs = ctx.saved_tensors
        key, seeds, wrt = _pulled(ctx.key, inputs, cotangents)
        results = _conjugated(operation([*inputs, *seeds], key))
        return [next(results) if i in wrt else None for i in range(len(inputs))], None

    def mapped(info: Any, axes: Any, inputs: Sequence[Any], key: str) -> Any:
        """The results of a call under `torch.vmap`, as a call of the mapped family; all results are mapped along axis 0.

        `axes` are the mapped axes of the tensors `inputs`, None for those without, and `key` is the name of the family.
        """
        family = _FAMILIES[key].mapped(tuple(axes[0]))
        results = operation(list(inputs), _name_of_family(family))
        return results, [0] * len(results)

    operation.register_autograd(backward, setup_context=setup)
    operation.register_vmap(mapped)

    class Call(torch.autograd.Function):
        """A call outside graphs. It costs less, and `torch.func` refuses the derivatives of custom operations."""

        @staticmethod
        def forward(key: str, *inputs: Any) -> Any:
            return tuple(_results(inputs, key) if is_plain(inputs) else operation(list(inputs), key))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Stores the inputs for both modes, and marks the results that have no derivative."""
            ctx.key, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            outputs = _program(_FAMILIES[ctx.key], tensors).outputs
            ctx.mark_non_differentiable(*(y for y, s in zip(output, outputs, strict=True) if not is_differentiable(s.dtype)))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            """The cotangents of the inputs, by the derivative of the call; None for the key and
            for inputs that need none.
            """
            inputs = ctx.saved_tensors
            key, seeds, wrt = _pulled(ctx.key, inputs, cotangents)
            results = _conjugated(call([*inputs, *seeds], key))
            return None, *(next(results) if i in wrt else None for i in range(len(inputs)))

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            """The tangents of the results; None for results without a derivative."""
            inputs = ctx.saved_tensors
            family = _FAMILIES[ctx.key]
            wrt = tuple(i for i, x in enumerate(tangents) if x is not None)
            results = iter(Call.apply(_name_of_family(family.pushed(wrt)), *inputs, *(tangents[i] for i in wrt)))
            outputs = _program(family, inputs).outputs
            return tuple(next(results) if is_differentiable(spec.dtype) else None for spec in outputs)

        @staticmethod
        def vmap(info: Any, axes: Any, key: str, *inputs: Any) -> Any:
            """The results of a call under `torch.func.vmap`, by the mapped family; their mapped axis is 0."""
            results = Call.apply(_name_of_family(_FAMILIES[key].mapped(tuple(axes[1:]))), *inputs)
            return results, (0,) * len(results)

    class Recorded(Call):
        """A call for autograd only: `forward` with a context argument takes a third of the time of `setup_context`."""

        setup_context = torch.autograd.Function.setup_context

        @staticmethod
        def forward(ctx: Any, key: str, *inputs: Any) -> Any:  # type: ignore[override]
            results = tuple(_results(inputs, key))
            Call.setup_context(ctx, (key, *inputs), results)
            return results

    Call.forward.__signature__ = inspect.signature(Call.forward)  # type: ignore[attr-defined]  # else `apply` finds it at each call
    kinds = {torch.Tensor, torch.nn.Parameter}

    def is_plain(inputs: Sequence[Any]) -> bool:
        """True if all inputs are ordinary tensors, and no dispatch mode records operations on them."""
        return all(type(x) in kinds for x in inputs) and not torch._C._len_torch_dispatch_stack()

    def call(inputs: Sequence[Any], key: str) -> Sequence[Any]:
        """The results of a call, by the cheapest of the three forms that the inputs allow."""
        if torch._C._are_functorch_transforms_active():
            return Call.apply(key, *inputs)
        if not is_plain(inputs):
            return operation(list(inputs), key)
        is_recorded = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        is_recorded = is_recorded or torch.autograd.forward_ad._current_level >= 0
        return Recorded.apply(key, *inputs) if is_recorded else _results(inputs, key)

    return call


def _results(inputs: Sequence[Any], key: str) -> list[Any]:
    """The results of the family with the name `key` for tensors on the CPU, computed without autograd. `inputs` are the tensors."""
    import torch

    results = _program(_FAMILIES[key], inputs)([_array(x) for x in inputs])
    as_bits = lambda x: torch.from_numpy(x.view(f"i{x.dtype.itemsize}")).view(_of_torch(x.dtype))  # noqa: E731
    return [as_bits(x) if x.dtype.kind == "V" else torch.from_numpy(x) for x in results]


def _pulled(key: str, inputs: Sequence[Any], cotangents: Sequence[Any]) -> tuple[str, list[Any], tuple[int, ...]]:
    """The name of the pullback's family, the dense cotangents, and the indices of the inputs that have a derivative."""
    family = _FAMILIES[key]
    outputs = _program(family, inputs).outputs
    active = [i for i, spec in enumerate(outputs) if is_differentiable(spec.dtype)]
    wrt = tuple(i for i, x in enumerate(inputs) if x.is_floating_point() or x.is_complex())
    return _name_of_family(family.pulled(wrt, len(active))), [_dense_cotangent(cotangents[i], outputs[i]) for i in active], wrt


def _program(family: Family, tensors: Sequence[Any]) -> Program:
    """The program of a family for the shapes and dtypes of tensors, which is made once for each."""
    try:
        return family.at(tuple([(x.shape, x.dtype) for x in tensors]), _specs)
    except TypeError:  # PyTorch has symbols as lengths; int() fixes their values
        return family.at(tuple([(tuple(map(int, x.shape)), x.dtype) for x in tensors]), _specs)


def _specs(kinds: tuple[Any, ...]) -> tuple[Spec, ...]:
    return tuple(Spec(tuple(map(int, shape)), _dtype(dtype)) for shape, dtype in kinds)


@functools.cache
def _dtype(dtype: Any) -> np.dtype:
    return dtype_named(str(dtype).removeprefix("torch."))


@functools.cache
def _of_torch(dtype: np.dtype) -> Any:
    """PyTorch's dtype with the name of a dtype of NumPy."""
    import torch

    return getattr(torch, dtype.name)


def _conjugated(results: Sequence[Any]) -> Any:
    """Cotangents in PyTorch's convention, in which complex ones are the conjugates of those of nabla_mlir."""
    return (x.conj() if x.is_complex() else x for x in results)


def _dense_cotangent(cotangent: Any, spec: Spec) -> Any:
    """The cotangent of a result with the type `spec`, in the convention of nabla_mlir; zeros if PyTorch passes None."""
    import torch

    if cotangent is None:
        return torch.zeros(spec.shape, dtype=_of_torch(spec.dtype))
    return cotangent.conj() if cotangent.is_complex() else cotangent


def _array(x: Any) -> np.ndarray:
    """An array of NumPy that shares the memory of the tensor `x`; raises ExchangeError if it is on another device than the CPU."""
    if x.device.type != "cpu":
        raise ExchangeError(f"function requires tensors on the CPU, got one on {x.device}.", help="copy it there first: x.cpu().")
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    return readable(x) if _dtype(x.dtype).kind == "V" else x.numpy()
