"""Import of modules of PyTorch as functions of nabla_mlir, and export to PyTorch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ImportIRError, user_frame
from nabla_mlir.base.typing import PyTree
from nabla_mlir.interop.stablehlo import imported
from nabla_mlir.interop.torch_function import function as function
from nabla_mlir.interop.torch_program import stablehlo_of
from nabla_mlir.staging.specs import as_spec


def from_torch(module: Any, *specs: PyTree, parameters: bool = False) -> Callable[..., Any]:
    """A PyTorch module as a function that every transform accepts, for arguments of given shapes and dtypes.

    `torch.export` captures the program, and torch-mlir (a package on PyPI, maintained in step with PyTorch) lowers it to StableHLO.
    Linear algebra, Fourier transforms and some other operations that it does not lower are those of `nabla_mlir.numpy`. Values that
    `detach` and `no_grad` make constant are constant here, too.

    The module is captured in its current mode: call ``module.eval()`` first for inference. Buffers are constants, and updates of
    them in training are not results. Random draws, as in dropout, are the same at each call. The results are flat, in the order of
    PyTorch's tree: a single result as it is, several as a tuple.

    Args:
      module: a `torch.nn.Module`, or a function of tensors.
      specs: for each argument of its `forward` an array, or an object with a shape and a dtype, or a pytree of them. Without specs,
        the module is captured once for each combination of shapes and dtypes of the calls.
      parameters: True makes the parameters, a dict of arrays by their names, the first argument of the function; otherwise they
        are constants. The function then has an attribute `parameters`: an OrderedDict of their values as NumPy arrays, in
        PyTorch's order. An operator at that point, such as `nm.HessianOperator(loss, f.parameters)`, multiplies flat vectors
        in the order of `torch.nn.utils.parameters_to_vector`.

    Raises:
      ImportIRError: PyTorch or torch-mlir is not installed, one of them does not accept the module, or an operation cannot be
        imported; the message names it.

    Example:
      >>> import nabla_mlir as nm, torch  # doctest: +SKIP
      >>> layer = torch.nn.Linear(3, 1)  # doctest: +SKIP
      >>> f = nm.from_torch(layer, nm.spec((2, 3), "float32"), parameters=True)  # doctest: +SKIP
      >>> nm.grad(lambda w, x: f(w, x).sum())(f.parameters, x)["weight"].shape  # doctest: +SKIP
      (1, 3)
    """
    try:
        import torch
        import torch_mlir  # noqa: F401
    except ImportError as error:
        lacking = {"torch": "PyTorch", "torch_mlir": "torch-mlir"}.get(str(error.name), str(error))
        raise ImportIRError(
            f"from_torch requires PyTorch and torch-mlir, got an environment without {lacking}.",
            where=user_frame(),
            help="pip install 'nabla-mlir[torch]'",
        ) from None
    if parameters and not isinstance(module, torch.nn.Module):
        raise ImportIRError(
            f"from_torch requires a torch.nn.Module where parameters=True, got {type(module).__name__}.",
            help="leave out parameters=True, and pass the parameters as arguments of the function.",
        )
    f = _captured(module, specs, parameters) if specs else _of_any_shape(module, parameters)
    if parameters:
        values = ((name, value.detach().cpu().numpy()) for name, value in module.named_parameters())
        f.parameters = OrderedDict(values)  # type: ignore[attr-defined]  # a function, which has any attribute
    return f


def _of_any_shape(module: Any, parameters: bool) -> Callable[..., Any]:
    """A function that captures the module with torch.export once for each combination of shapes and dtypes."""
    programs: dict[Any, Callable[..., Any]] = {}

    def applied(*arguments: Any) -> Any:
        """The results of the module that is captured for these shapes and dtypes."""
        leaves, tree = pytree.flatten(arguments[parameters:])
        specs = [as_spec(leaf) for leaf in leaves]
        key = tree, tuple(specs)
        if key not in programs:
            programs[key] = _captured(module, pytree.unflatten(tree, specs), parameters)
        return programs[key](*arguments)

    return applied


def _captured(module: Any, specs: Sequence[Any], parameters: bool) -> Callable[..., Any]:
    """The function of a module, which torch.export captures for arguments with these specs."""
    import torch

    leaves, tree = pytree.flatten(tuple(specs))
    weights = dict(module.named_parameters()) if parameters else {}

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module  # buffers are identified by their names

        def forward(self, *inputs: Any) -> Any:
            """Calls the module with its weights replaced by the first inputs, and the rest as its arguments."""
            arguments = pytree.unflatten(tree, inputs[len(weights) :])
            if not weights:
                return self.module(*arguments)
            return torch.func.functional_call(self.module, dict(zip(weights, inputs, strict=False)), arguments)

    def example(spec: Any) -> Any:
        """A tensor of ones with the shape and dtype of a spec."""
        return torch.ones(tuple(spec.shape), dtype=getattr(torch, np.dtype(spec.dtype).name))

    inputs = [*(value.detach() for value in weights.values()), *map(example, leaves)]
    f = imported(stablehlo_of(Flat(), inputs), "main")

    def applied(*arguments: Any) -> Any:
        """The results of the imported module, from the dict of parameters, if there is one, and the arguments."""
        state, arguments = (arguments[0], arguments[1:]) if parameters else ({}, arguments)
        flat = pytree.flatten_like(tree, arguments, "the arguments", "the specs of from_torch")
        return f(*(state[name] for name in weights), *flat)

    return applied
