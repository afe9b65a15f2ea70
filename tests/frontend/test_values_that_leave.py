"""A value that a derivative follows does not leave its trace as a number, which would be a constant: it raises, with the user's line."""

from __future__ import annotations

import array
import cmath
import copy
import ctypes
import math
import operator
import pickle
import statistics
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import ConcretizationError
from nabla_mlir.jax.experimental.jet import jet

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def interpreted() -> Any:
    before = nm.set_execution("interpret")
    with nm.enable_x64():
        yield
    nm.set_execution(before)


def _filled(fill: Callable[[np.ndarray, Any], Any]) -> Callable[[Any], Any]:
    def of(w: Any) -> Any:
        a = np.ones(3)
        fill(a, w)
        return a.sum()

    return of


PROTOCOLS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "complex": lambda w: complex(w).real,
    "item": lambda w: w.item(),
    "tolist": lambda w: w.tolist(),
    "asarray": np.asarray,
    "array": lambda w: np.array([w, w]).sum(),
    "scalar": np.float64,
    "index": operator.index,
    "subscript": lambda w: [1.0, 2.0, 3.0][w],
    "range": lambda w: len(range(w)),
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "format": lambda w: float(f"{w:.9f}"),
    "percent": lambda w: float(operator.mod("%.9f", w)),
    "sine": math.sin,
    "hypot": lambda w: math.hypot(w, 1.0),
    "fsum": lambda w: math.fsum([w, w]),
    "isfinite": lambda w: 2.0 * math.isfinite(w),
    "complex sine": lambda w: cmath.sin(w).real,
    "fmean": lambda w: statistics.fmean([w, w]),
    "numpy's sine": np.sin,
    "numpy's where": lambda w: np.where(True, w, 0.0),
    "numpy's full": lambda w: np.full(3, w).sum(),
    "numpy's linspace": lambda w: np.linspace(0.0, w, 3).sum(),
    "concatenate": lambda w: np.concatenate([np.ones(1), w[None]]).sum(),
    "array in place": _filled(lambda a, w: operator.iadd(a, w)),
    "out": _filled(lambda a, w: np.multiply(a, w, out=a)),
    "dlpack": np.from_dlpack,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda w: pickle.loads(pickle.dumps(w)),
    "ctypes": lambda w: ctypes.c_double(w).value,
    "array.array": lambda w: array.array("d", [w])[0],
}
# Python and NumPy replace the error in these; ours, which knows the line, is its cause where they keep one.
WRAPPED: dict[str, Callable[[Any], Any]] = {
    "assignment": _filled(lambda a, w: operator.setitem(a, 0, w)),
    "fill": _filled(lambda a, w: a.fill(w)),
    "struct": lambda w: struct.unpack("d", struct.pack("d", w))[0],
    "integer": lambda w: float(operator.mod("%d", w)),
    "buffer": lambda w: memoryview(w)[0],
    "interface": lambda w: w.__array_interface__,
    "mean": lambda w: statistics.mean([w, w]),
}


def _rule(is_forward: bool) -> Callable[[Callable[..., Any]], Any]:
    """The second derivative by a rule of the user's that reads its argument."""

    def second(leave: Callable[..., Any]) -> Any:
        if is_forward:
            f = nm.custom_jvp(lambda x: x * x)
            f.defjvp(lambda primals, tangents: (f(*primals), 2 * leave(primals[0]) * tangents[0]))
        else:
            f = nm.custom_vjp(lambda x: x * x)
            f.defvjp(lambda x: (x * x, leave(x)), lambda stored, ct: (2 * stored * ct,))
        return nm.grad(nm.grad(f))(2.25)

    return second


Leave = Callable[[Any], Any]
TRANSFORMS: dict[str, Callable[[Leave], Any]] = {
    "grad": lambda f: nm.grad(lambda w: f(w) * w)(2.25),
    "value_and_grad": lambda f: nm.value_and_grad(lambda w: f(w * w) + w)(2.25),
    "aux": lambda f: nm.grad(lambda w: (w * w, f(w)), has_aux=True)(2.25),
    "jvp": lambda f: nm.jvp(lambda w: f(w) * w, (2.25,), (1.0,)),
    "vjp": lambda f: nm.vjp(lambda w: f(w) * w, 2.25)[1](1.0),
    "linearize": lambda f: nm.linearize(lambda w: f(w) * w, 2.25)[1](1.0),
    "jacfwd": lambda f: nm.jacfwd(lambda w: f(w[0]) * w)(np.array([2.25, 1.0])),
    "jacrev": lambda f: nm.jacrev(lambda w: f(w.sum()) * w)(np.array([2.25, 1.0])),
    "hessian": lambda f: nm.hessian(lambda w: f(w) * w * w)(2.25),
    "hvp": lambda f: nm.hvp(lambda w: f(w) * w)(2.25, 1.0),
    "jet": lambda f: jet(lambda w: f(w) * w, (2.25,), [[1.0]]),
    "outer": lambda f: nm.grad(lambda w: nm.grad(lambda y: f(w) * y)(1.0))(2.25),
    "inner": lambda f: nm.grad(lambda w: nm.grad(lambda y: f(y) * w)(1.0))(2.25),
    "derivative": lambda f: nm.grad(lambda w: f(nm.grad(lambda y: y**3)(w)))(2.25),
    "vmap": lambda f: nm.vmap(lambda w: f(w) * w)(np.array([2.25, 1.0])),
    "vmap of grad": lambda f: nm.vmap(nm.grad(lambda w: f(w) * w))(np.array([2.25, 1.0])),
    "grad of vmap": lambda f: nm.grad(lambda w: nm.vmap(lambda v: f(w) * v)(np.ones(2)).sum())(2.25),
    "custom_jvp": lambda f: _rule(True)(f),
    "custom_vjp": lambda f: _rule(False)(f),
    "checkpoint": lambda f: nm.grad(nm.checkpoint(lambda w: f(w) * w))(2.25),
    "cond": lambda f: nm.grad(lambda w: nm.cond(w > 0, lambda: f(w) * w, lambda: w))(2.25),
    "scan": lambda f: nm.grad(lambda w: nm.scan(lambda c, x: (f(c) * x, None), w, np.ones(2))[0])(2.25),
    "while_loop": lambda f: nm.jvp(lambda w: nm.while_loop(lambda c: c < 9.0, lambda c: f(w) + c, w), (2.25,), (1.0,)),
    "fori_loop": lambda f: nm.grad(lambda w: nm.fori_loop(0, 2, lambda i, c: f(w) * c, w))(2.25),
    "closure_convert": lambda f: nm.grad(lambda w: nm.closure_convert(lambda x: f(x) * w, 1.0)[0](w, w))(2.25),
    "jit": lambda f: nm.jit(lambda w: f(w) * w)(2.25),
    "jit of grad": lambda f: nm.jit(nm.grad(lambda w: f(w) * w))(2.25),
    "grad of jit": lambda f: nm.grad(nm.jit(lambda w: f(w) * w))(2.25),
    "HessianOperator": lambda f: nm.HessianOperator(lambda w: f(w[0]) * w.sum(), np.array([2.25, 1.0])),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_it_raises(transform: str, protocol: str) -> None:
    with pytest.raises(
        ConcretizationError, match=r"requires a (concrete value|value that no derivative follows), got the traced"
    ) as error:
        TRANSFORMS[transform](PROTOCOLS[protocol])
    assert error.value.where is not None
    assert error.value.where.filename == __file__
    assert error.value.help


@pytest.mark.parametrize("protocol", WRAPPED)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_it_raises_in_words_of_python(transform: str, protocol: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, struct.error)) as error:
        TRANSFORMS[transform](WRAPPED[protocol])
    cause = error.value.__cause__
    if protocol in ("assignment", "fill"):
        assert isinstance(cause, ConcretizationError)
        assert cause.where is not None
        assert cause.where.filename == __file__


def test_the_message_says_what_to_write() -> None:
    with pytest.raises(ConcretizationError) as error:
        nm.grad(lambda w: math.sin(w))(1.0)
    assert "nabla_mlir.numpy" in error.value.help
    assert "float(nm.stop_gradient(x))" in error.value.help
    with pytest.raises(ConcretizationError) as error:
        nm.grad(lambda w: math.floor(w) * w)(1.0)
    assert "math.floor(nm.stop_gradient(x))" in error.value.help


# ---------------------------------------------------------------- what may leave, since its derivative is 0


LEAVING: dict[str, tuple[Callable[[Any], Any], float]] = {
    "comparison": (lambda w: (2.0 if w > 1 else 3.0) * w, 2.0),
    "truth": (lambda w: w if w else 0.0, 1.0),
    "larger": (lambda w: max(w, 1.0) * w, 4.5),
    "order": (lambda w: sorted([w, 1.0])[0] * w, 1.0),
    "stop_gradient": (lambda w: math.sin(nm.stop_gradient(w)) * w, math.sin(2.25)),
    "rounded": (lambda w: int(nnp.round(w)) * w, 2.0),
    "floor": (lambda w: float(nnp.floor(w)) * w, 2.0),
    "integer": (lambda w: int(w.astype("int32")) * w, 2.0),
    "sign": (lambda w: float(nnp.sign(w)) * w, 1.0),
    "text": (lambda w: len(f"{w}") * w, len("Tensor(float64[])")),
}


@pytest.mark.parametrize("name", LEAVING)
def test_what_has_no_derivative_leaves(name: str) -> None:
    f, slope = LEAVING[name]
    assert float(nm.grad(f)(2.25)) == pytest.approx(slope, rel=1e-12)
    assert float(nm.jvp(f, (2.25,), (1.0,))[1]) == pytest.approx(slope, rel=1e-12)
    step = 1e-6
    if name not in ("stop_gradient", "text"):
        differences = (f(nnp.asarray(2.25 + step)) - f(nnp.asarray(2.25 - step))) / (2 * step)
        assert float(differences) == pytest.approx(slope, rel=1e-6)


def test_other_arguments_leave() -> None:
    scale = nnp.asarray(3.0)
    assert float(nm.grad(lambda w, s: float(s) * w * math.sin(scale))(2.25, 3.0)) == pytest.approx(3 * math.sin(3.0))
    assert float(nm.grad(lambda w, n: w ** int(n))(2.0, 3)) == 12
    assert float(nm.grad(lambda w: w * float(nnp.sum(nnp.asarray(np.ones(3)))))(2.0)) == 3
    assert float(nm.jvp(lambda w, s: math.sin(s) * w, (2.25, 3.0), (1.0, None))[1]) == pytest.approx(math.sin(3.0))
    with pytest.raises(ConcretizationError):
        nm.jvp(lambda w, s: math.sin(s) * w, (2.25, 3.0), (None, 1.0))
    with pytest.raises(ConcretizationError):
        nm.grad(lambda w, s: float(s) * w, argnums=(0, 1))(2.25, 3.0)


def test_an_inner_function_leaves_outer_values_that_nobody_follows() -> None:
    f = lambda w: nm.grad(lambda y: float(w) * y * y)(1.0)  # noqa: E731
    assert float(f(nnp.asarray(3.0))) == 6
    with pytest.raises(ConcretizationError):
        nm.grad(f)(3.0)


def test_rules_read_what_their_derivative_applies_but_not_what_follows() -> None:
    @nm.custom_jvp
    def sine(x: Any) -> Any:
        return nnp.asarray(math.sin(x))

    sine.defjvp(lambda primals, tangents: (sine(*primals), math.cos(primals[0]) * tangents[0]))
    assert float(sine(1.0)) == pytest.approx(math.sin(1))
    assert float(nm.grad(sine)(1.0)) == pytest.approx(math.cos(1))
    assert float(nm.grad(lambda w: nm.grad(lambda y: sine(y) * w)(1.0))(2.0)) == pytest.approx(math.cos(1))
    for second in (nm.grad(nm.grad(sine)), nm.hessian(sine), lambda x: nm.jvp(nm.grad(sine), (x,), (1.0,))):
        with pytest.raises(ConcretizationError):
            second(1.0)
    with pytest.raises(ConcretizationError):
        nm.grad(lambda w: nm.grad(lambda y: sine(y * w))(1.0))(2.0)


def test_jet_follows_functions_with_rules_as_they_are_written() -> None:
    f = nm.custom_jvp(lambda x: x * math.sin(x))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    assert float(nm.grad(f)(1.0)) == 1
    with pytest.raises(ConcretizationError):
        jet(f, (1.0,), [[1.0]])


def test_long_programs_read_each_value_once() -> None:
    def f(w: Any) -> Any:
        y = nm.stop_gradient(w)
        for _ in range(400):
            y = y * 1.01
            w = w * (1.0 if float(y) > 0 else 2.0)
        return w

    assert float(nm.grad(f)(1.0)) == 1
