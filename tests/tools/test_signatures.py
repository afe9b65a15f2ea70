"""Public signatures have types: `help` and type checkers show Any only where anything is accepted or returned."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import nabla_mlir as nm

# Parameters and results whose type is that of another package, or that depend on an argument.
ANYTHING = frozenset(
    (
        "Array.item -> Any",
        "Array.tolist -> Any",
        "IncompleteCholeskyPreconditioner matrix",
        "JacobianOperator.jac -> Any",
        "Lowered.compile target",
        "Lowered.compile example",
        "Lowered.compile -> Any",
        "ShapeDtypeStruct shape",
        "ShapeDtypeStruct dtype",
        "ShapeDtypeStruct sharding",
        "ShapeDtypeStruct vma",
        "device_put src",
        "SumOperator source",
        "Tensor.to_device device",
        "Tensor.item -> Any",
        "Tensor.tolist -> Any",
        "VectorizedArray data",
        "default_device new_val",
        "default_matmul_precision new_val",
        "device_put device",
        "explain f",
        "from_onnx model",
        "from_torch module",
        "jit -> Any",
        "linearize -> Any",
        "minimize bounds",
        "minimize constraints",
        "minimize hess",
        "revectorize -> Any",
        "vjp -> Any",
    )
)


def untyped(name: str, function: Any) -> Iterator[str]:
    """The parameters without a type, and the result."""
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name != "self" and parameter.annotation in ("Any", Any, inspect.Parameter.empty):
            yield f"{name} {parameter.name}"
    if signature.return_annotation in ("Any", Any) or (
        signature.return_annotation is signature.empty and not inspect.isclass(function)
    ):
        yield f"{name} -> Any"


def public() -> Iterator[tuple[str, Any]]:
    for name in nm.__all__:
        value = getattr(nm, name)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            yield name, value
            methods = ((f"{name}.{method}", f) for method, f in vars(value).items() if method[0] != "_" and inspect.isfunction(f))
            yield from methods
        elif inspect.isfunction(value):
            yield name, value


def test_names_of_nm() -> None:
    found = {line for name, value in public() for line in untyped(name, value)}
    assert found - ANYTHING == set()
    assert ANYTHING - found == set(), "these have a type now"


@pytest.mark.parametrize("name", ["beta", "t", "pareto", "normal", "uniform", "poisson", "truncated_normal"])
def test_draws(name: str) -> None:
    parameters = inspect.signature(getattr(nm.random, name)).parameters
    assert str(parameters["shape"].annotation).startswith("ShapeLike")
    assert parameters["dtype"].annotation == "DTypeLike | None"
    assert "Key" in str(parameters["key"].annotation)


def test_elementwise_functions() -> None:
    assert str(inspect.signature(nm.numpy.sin)) == "(x: 'ArrayLike') -> 'Tensor'"
