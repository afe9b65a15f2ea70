"""CasADi as a peer for small workloads: NumPy functions on arrays of its scalar expressions, run by its virtual machine.

It computes only in f64. The expressions of a workload grow with the data, so only small workloads fit.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from workload import Workload


class _Scalar:
    """Wraps a scalar of CasADi as an array element, because CasADi would treat whole arrays as matrices."""

    __slots__ = ("of",)

    def __init__(self, of: Any):
        self.of = of


def _arithmetic(name: str) -> Callable[..., Any]:
    apply = getattr(operator, name)

    def method(self: _Scalar, *others: Any, turned: bool = False) -> Any:
        if any(isinstance(other, np.ndarray) for other in others):
            return NotImplemented  # NumPy then applies it to each element
        of = [self.of, *(other.of if isinstance(other, _Scalar) else float(other) for other in others)]
        return _Scalar(apply(*(reversed(of) if turned else of)))

    return method


for _name in ("neg", "abs", "add", "sub", "mul", "truediv", "pow"):
    setattr(_Scalar, f"__{_name}__", _arithmetic(_name))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(_Scalar, f"__r{_name}__", functools.partialmethod(_arithmetic(_name), turned=True))
for _name in ("sqrt", "log", "exp", "sin", "cos", "tanh", "fmax"):  # NumPy calls methods of elements
    setattr(_Scalar, _name, lambda self, *others, name=_name: _Scalar(getattr(self.of, name)(*(o.of for o in others))))


def casadi_framework() -> Any:
    """The functions of the workloads for arrays of CasADi scalars, if NumPy supports them for objects."""
    names = SimpleNamespace(
        **{
            name: getattr(np, name)
            for name in (
                "sum",
                "mean",
                "sqrt",
                "log",
                "exp",
                "sin",
                "cos",
                "tanh",
                "abs",
                "einsum",
                "stack",
                "cross",
                "concatenate",
                "cumsum",
                "diagonal",
            )
        }
    )

    def scan(step: Callable[..., Any], carry: Any, rows: Any) -> tuple[Any, Any]:
        outs = []
        for row in rows:
            carry, out = step(carry, row)
            outs.append(out)
        return carry, None if outs[0] is None else np.stack(outs)

    def logsumexp(x: Any, axis: int) -> Any:
        highest = np.expand_dims(np.apply_along_axis(lambda row: functools.reduce(_Scalar.fmax, row), axis, x), axis)
        return np.log(np.sum(np.exp(x - highest), axis=axis)) + np.squeeze(highest, axis)

    nn = SimpleNamespace(tanh=np.tanh, softplus=lambda x: logsumexp(np.stack([x, 0 * x]), 0))
    return SimpleNamespace(np=names, nn=nn, scan=scan, logsumexp=logsumexp)


def casadi_calls(workload: Workload, args: tuple[Any, ...], v: Any) -> dict[str, Callable[[], Any]]:
    """The value, the gradient and the product, forward over reverse; arguments and results are in buffers."""
    import casadi
    import jax

    if workload.mapped:
        raise NotImplementedError("CasADi's maps are over functions of vectors")
    x, rest = _Symbols(args[0]), _Symbols(args[1:])
    f = workload.function(casadi_framework())(x.tree, *rest.tree).of
    gradient = casadi.gradient(f, x.vector)
    along = casadi.SX.sym("v", x.vector.numel())
    product = casadi.jtimes(gradient, x.vector, along)
    tangent = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(v)])
    values = [x.values, tangent.astype(np.float64), rest.values]
    symbols = [x.vector, along, rest.vector]
    results = (("value", f), ("gradient", gradient), ("hvp", product))
    return {name: _Call(casadi.Function(name, symbols, [casadi.densify(result)]), values) for name, result in results}


class _Symbols:
    """A pytree of arrays as symbols of the same shapes, one vector of all symbols, and the numbers; integers stay numbers."""

    def __init__(self, tree: Any):
        import casadi
        import jax

        vectors, numbers = [casadi.SX(0, 1)], [np.zeros(0)]

        def symbols(leaf: Any) -> Any:
            leaf = np.asarray(leaf)
            if leaf.dtype.kind != "f":
                return leaf
            vectors.append(casadi.SX.sym(f"x{len(vectors)}", leaf.size))
            numbers.append(leaf.ravel().astype(np.float64))
            out = np.empty(leaf.size, object)
            out[:] = [_Scalar(x) for x in vectors[-1].elements()]
            return out.reshape(leaf.shape) if leaf.shape else out[0]

        self.tree = jax.tree.map(symbols, tree)
        self.vector, self.values = casadi.vertcat(*vectors), np.concatenate(numbers)


class _Call:
    """A function with the memory for its arguments and its result."""

    def __init__(self, function: Any, values: list[np.ndarray]):
        self.buffer, self.evaluate = function.buffer()
        self.values, self.result = values, np.zeros(function.numel_out(0))
        for i, array in enumerate(values):
            self.buffer.set_arg(i, memoryview(array))
        self.buffer.set_res(0, memoryview(self.result))

    def __call__(self) -> np.ndarray:
        self.evaluate()
        return self.result
