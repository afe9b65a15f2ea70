"""Compares random programs of different dtypes with JAX: values, dtypes and gradients, with 32-bit default dtypes.

    python -m nabla_mlir.testing.fuzz --of promotions --minutes 10 --seed 1
    python -m nabla_mlir.testing.fuzz --of promotions --target cpu

A step reads two values that broadcast: arrays of any dtype of up to 32 bits, or numbers of Python and NumPy. A step that JAX
refuses is left out; otherwise JAX gives the correct value. Every step is a result, so that the first wrong step is reported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir.dialects.types import as_dtype
from nabla_mlir.interpreter import interpreted
from nabla_mlir.testing import nestings, peers
from nabla_mlir.testing.failures import failure
from nabla_mlir.testing.operations import Numbers, bounded, kind

# uint32 and signed integers promote to int64 in NumPy; JAX without 64 bits has no such dtype.
DTYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "float16", "bfloat16", "float32", "float32", "complex64")
SCALARS = (True, 2, 1, 0.5, 3.0, 1.5j, np.float32(0.25), np.int32(3), np.float64(1.5), np.bool_(True))
Step = Callable[[Any, Any, Any], Any]  # a function of (the module whose functions it calls, two operands)


def _named(*names: str, of: str = "numpy") -> list[tuple[str, Step]]:
    """The steps (name, function) for functions of two values with these names in a namespace of JAX."""
    return [(name, lambda J, x, y, name=name: getattr(getattr(J, of), name)(x, y)) for name in names]  # type: ignore[misc]


def _nonzero(J: Any, y: Any) -> Any:
    """The operand `y` as a divisor, with other elements in place of zeros. `J` is JAX or nabla_mlir.jax.

    Booleans become integers: NumPy and nabla_mlir divide them in int8, and JAX in int32.
    """
    if isinstance(y, (bool, np.bool_)):
        return 1
    if isinstance(y, (int, float, complex, np.generic)):
        return y
    return (y | True).astype(np.int8) if kind(y) == "b" else J.numpy.where(J.numpy.abs(y) < 0.1, J.numpy.ones_like(y), y)


def _off_jumps(J: Any, x: Any) -> Any:
    """Floating-point numbers moved away from integers, at which a remainder jumps, because there the last bit decides."""
    return x + 0.3 if hasattr(x, "at") and kind(x) == "f" else x


def _operand(x: Any) -> Any:
    """The value `x` as an operand of a step; wide unsigned integers become int32, as JAX without 64 bits has no dtype for their
    sums.
    """
    return x.astype(np.int32) if hasattr(x, "at") and kind(x) == "u" and x.dtype.itemsize >= 4 else x


def _exponent(J: Any, y: Any) -> Any:
    """A small exponent, because JAX's powers of integers that overflow differ from those of NumPy and nabla_mlir."""
    return y % 4 if kind(y) in "iu" else y


def _strong(J: Any, x: Any) -> Any:
    """A value whose dtype is fixed: in JAX, 0.5 * n for integers n would stay a number that takes any dtype."""
    return J.lax.convert_element_type(bounded(J, x), x.dtype)


def _can_store(x: Any, y: Any) -> bool:
    """True if the kind of y's dtype is not higher than the kind of x's dtype, so that y can be stored in x."""
    return hasattr(y, "at") and "biufc".index(kind(y).replace("u", "i")) <= "biufc".index(kind(x).replace("u", "i"))


def _flat(J: Any, x: Any) -> Any:
    return J.numpy.ravel(x if hasattr(x, "at") else np.float32(1.5))[:6]


def _with(**functions: Step) -> list[tuple[str, Step]]:
    return list(functions.items())


STEPS: list[tuple[str, Step]] = [
    *_named(
        "add",
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "equal",
        "less",
        "greater_equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "hypot",
        "copysign",
        "heaviside",
        "outer",
        "kron",
        "isclose",
        "allclose",
        "fmax",
        "fmin",
        "array_equal",
        "float_power",
        "isin",
    ),
    *_with(
        divide=lambda J, x, y: x / _nonzero(J, y),
        floor_divide=lambda J, x, y: _off_jumps(J, x) // _nonzero(J, y),
        mod=lambda J, x, y: _off_jumps(J, x) % _nonzero(J, y),
        fmod=lambda J, x, y: J.numpy.fmod(_off_jumps(J, x), _nonzero(J, y)),
        true_divide=lambda J, x, y: J.numpy.true_divide(x, _nonzero(J, y)),
        plus=lambda J, x, y: x + y,
        minus=lambda J, x, y: x - y,
        times=lambda J, x, y: x * y,
        power=lambda J, x, y: (J.numpy.abs(x if kind(x) != "b" else 1) + 1) ** (_exponent(J, y) if hasattr(y, "at") else 2),
        square=lambda J, x, y: x**2 + y,
        cube=lambda J, x, y: y - x**3,
        negative=lambda J, x, y: -x + y,
        over=lambda J, x, y: 1 / _nonzero(J, x),
        twice=lambda J, x, y: 2 * x,
        half=lambda J, x, y: 0.5 * x,
        turn=lambda J, x, y: 1j * x,
        less_than=lambda J, x, y: x < y,
        where=lambda J, x, y: J.numpy.where(x != 0, x, y),
        where_scalar=lambda J, x, y: J.numpy.where(y != 0, x, 0),
        where_half=lambda J, x, y: J.numpy.where(y != 0, 0.5, x),
        clip_up=lambda J, x, y: J.numpy.clip(x, None, y) if x is not y else x,
        concatenate=lambda J, x, y: J.numpy.concatenate([_flat(J, x), _flat(J, y)]),
        append=lambda J, x, y: J.numpy.append(x, y),
        stack=lambda J, x, y: J.numpy.stack([x + y, y + x]),
        hstack=lambda J, x, y: J.numpy.hstack([_flat(J, x), _flat(J, y)]),
        dot=lambda J, x, y: J.numpy.dot(_flat(J, x)[:1], _flat(J, y)[:1]),
        matmul=lambda J, x, y: J.numpy.outer(x, y)[:3] @ J.numpy.outer(y, x)[:, :3],
        einsum=lambda J, x, y: J.numpy.einsum("i,j->ij", _flat(J, x), _flat(J, y)),
        tensordot=lambda J, x, y: J.numpy.tensordot(x, y, 0),
        vdot=lambda J, x, y: J.numpy.vdot(_flat(J, x)[:1], _flat(J, y)[:1]),
        sum_to=lambda J, x, y: J.numpy.sum(x, dtype=np.float16),
        sum=lambda J, x, y: J.numpy.sum(x),
        mean=lambda J, x, y: J.numpy.mean(x) * y,
        prod=lambda J, x, y: J.numpy.prod(_flat(J, x)),
        var=lambda J, x, y: J.numpy.var(x),
        std=lambda J, x, y: J.numpy.std(x) + y,
        maxima=lambda J, x, y: J.numpy.max(x, initial=1),
        average=lambda J, x, y: J.numpy.average(x, weights=J.numpy.ones_like(x)),
        median=lambda J, x, y: J.numpy.median(x),
        astype=lambda J, x, y: x.astype(np.complex64),
        full_like=lambda J, x, y: J.numpy.full_like(x, 2) + y,
        set=lambda J, x, y: _flat(J, x).at[0].set(J.numpy.ravel(y)[0] if _can_store(x, y) else True),
        add_at=lambda J, x, y: _flat(J, x).at[0].add(True),
        linspace=lambda J, x, y: J.numpy.linspace(_flat(J, x)[0], _flat(J, y)[0], 4),
        polyval=lambda J, x, y: J.numpy.polyval(_flat(J, x), y),
        select=lambda J, x, y: J.numpy.select([x != 0, y != 0], [x, y], 1),
        sin=lambda J, x, y: J.numpy.sin(x) + y,
        exp=lambda J, x, y: J.numpy.exp(x),
        sqrt=lambda J, x, y: J.numpy.sqrt(J.numpy.abs(x)) + y,
        floor=lambda J, x, y: J.numpy.floor(x),
        abs=lambda J, x, y: abs(x) + y,
        sign=lambda J, x, y: J.numpy.sign(J.numpy.real(x)),
        round=lambda J, x, y: J.numpy.round(x) + y,
        real=lambda J, x, y: J.numpy.real(x),
        conj=lambda J, x, y: J.numpy.conj(x) * y,
        norm=lambda J, x, y: J.numpy.linalg.norm(x),
        relu=lambda J, x, y: J.nn.relu(J.numpy.real(x) if kind(x) != "b" else x.astype(np.int8)),
        silu=lambda J, x, y: J.nn.silu(x) + y,
        softmax=lambda J, x, y: J.nn.softmax(J.numpy.sin(J.numpy.real(x))),
        expm1=lambda J, x, y: J.numpy.expm1(x),
        invert=lambda J, x, y: ~x,
        shift=lambda J, x, y: x << 1,
        diff=lambda J, x, y: J.numpy.diff(_flat(J, x)),
        pad=lambda J, x, y: J.numpy.pad(_flat(J, x), 1, constant_values=2),
        divmod=lambda J, x, y: divmod(_off_jumps(J, x), _nonzero(J, y))[1],
        cross=lambda J, x, y: J.numpy.cross(J.numpy.resize(x, (3,)), J.numpy.resize(_flat(J, y), (3,))),
        interp=lambda J, x, y: J.numpy.interp(x, np.arange(3), np.arange(3) ** 2),
        nan_to_num=lambda J, x, y: J.numpy.nan_to_num(x),
        sinc=lambda J, x, y: J.numpy.sinc(0.31 * x + 0.55),
        triangle=lambda J, x, y: J.numpy.tri(2) * J.numpy.ravel(x)[0],
        scan=lambda J, x, y: J.lax.fori_loop(0, 2, lambda i, c: c * x, x),
        cond=lambda J, x, y: J.lax.cond(J.numpy.all(x == x), lambda a: a + 1, lambda a: a, x),
        arange=lambda J, x, y: J.numpy.arange(3) * J.numpy.ravel(x)[0],
        searchsorted=lambda J, x, y: J.numpy.searchsorted(J.numpy.sort(_flat(J, x)), y),
        trapezoid=lambda J, x, y: J.numpy.trapezoid(_flat(J, x)),
        cov=lambda J, x, y: J.numpy.cov(_flat(J, x)),
        logical_not=lambda J, x, y: J.numpy.logical_not(x),
    ),
]


class Program:
    """A random program: its arguments, and the steps that JAX accepts; the seed determines both."""

    def __init__(self, seed: int, steps: int = 6):
        """Draws the arguments, the scalars and the choices of steps."""
        self.seed = seed
        rng = np.random.default_rng([seed, 79])
        shape = tuple(int(n) for n in rng.choice((1, 2, 3), rng.integers(3)))
        self.arguments = [_argument(rng, shape[rng.integers(len(shape) + 1) :]) for _ in range(4)]
        self.scalars = [SCALARS[i] for i in rng.integers(len(SCALARS), size=2)]
        self.choices = [[int(n) for n in rng.integers(2**31, size=3)] for _ in range(steps)]
        self.plan: list[tuple[str, Step, int, int]] = []

    def __call__(self, J: Any, *xs: Any) -> list[Any]:
        """The value of each step of the plan for the arguments `xs`. `J` is JAX or nabla_mlir.jax."""
        values = [*xs, *self.scalars]
        for _, f, i, k in self.plan:
            values.append(_strong(J, f(J, _operand(values[i]), _operand(values[k]))))
        return values[len(xs) + len(self.scalars) :]

    def planned(self, J: Any, *xs: Any) -> list[Any]:
        """The values of the random steps that the module `J` accepts for the arguments `xs`; these steps are stored as the plan."""
        values, self.plan = [*xs, *self.scalars], []
        for choice, first, second in self.choices:
            name, f = STEPS[choice % len(STEPS)]
            i, k = first % len(values), second % len(values)
            if np.shape(values[i]) == () and len(xs) <= i < len(xs) + len(self.scalars):
                i, k = k % len(xs), i
            try:
                value = _strong(J, f(J, _operand(values[i]), _operand(values[k])))
            except Exception:
                continue
            if value.size <= nestings.MOST:
                values.append(value)
                self.plan.append((name, f, i, k))
        return values[len(xs) + len(self.scalars) :]

    def __str__(self) -> str:
        operands = [f"{x.dtype}{list(x.shape)}" for x in self.arguments] + [repr(s) for s in self.scalars]
        return f"{', '.join(operands)}: {'; '.join(f'{name}({i}, {k})' for name, _, i, k in self.plan)}"


def _argument(rng: Numbers, shape: tuple[int, ...]) -> np.ndarray:
    """A random array of the given shape and of a random dtype. `rng` makes the random choices."""
    dtype = as_dtype(str(rng.choice(DTYPES)))
    if dtype.kind in "biu":
        return np.asarray(rng.integers(0 if dtype.kind in "ub" else -4, 2 if dtype.kind == "b" else 5, shape)).astype(dtype)
    x = rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else 0)
    return np.asarray(x).astype(dtype)


def _gradient(J: Any, program: Program, xs: Sequence[Any]) -> list[Any]:
    """The gradient of a number that depends on every result of a program, by its floating-point arguments in `xs`.

    `J` is JAX or nabla_mlir.jax.
    """
    positions = tuple(i for i, x in enumerate(xs) if kind(x) in "fc")
    if not positions:
        return []

    def number(*xs: Any) -> Any:
        """The sum of the real parts of all floating-point results, in float32."""
        reals = [J.numpy.sum(J.numpy.real(y)).astype(np.float32) for y in program(J, *xs) if kind(y) in "fc"]
        return sum(reals, J.numpy.float32(0))

    return list(J.grad(number, positions)(*xs))


def fault_of(program: Program, target: str = "interpreter") -> str:
    """The error of a program, with its cause before a colon; "" if there is none, `peers.NONE` if JAX refuses the program."""
    jax, J = peers.jax_namespace()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with jax.enable_x64(False):
            try:
                jax.eval_shape(lambda *xs: program.planned(J, *xs), *program.arguments)
                both = jax.jit(lambda *xs: (program(J, *xs), _gradient(J, program, xs)))(*program.arguments)
            except Exception:
                return peers.NONE
            right = [[np.asarray(y) for y in part] for part in both]
        if not program.plan:
            return peers.NONE
        try:
            return _fault_of(program, right, target)
        except Exception as error:
            return failure(error)


def _fault_of(program: Program, right: Sequence[Sequence[np.ndarray]], target: str) -> str:
    """The text of the first fault in the results of a program, or "" if there is none.

    `right` holds JAX's results of the steps, and JAX's gradients.
    """
    traced = nm.trace(lambda *xs: [program(nm.jax, *xs), _gradient(nm.jax, program, xs)], *program.arguments, name="f")
    lowered = traced.lower()
    f = lowered.compile(target, cache=False) if target != "interpreter" else None
    run = f or (lambda *xs: interpreted(lowered.module.operation, "f")(list(xs)))
    results = [np.asarray(y) for y in nm.jax.tree.leaves(run(*program.arguments))]
    least = peers.precision(str(traced))
    steps = len(program.plan)
    for (name, *_), a, b in zip(program.plan, results[:steps], right[0], strict=True):
        if what := peers.difference([a], [b], least):
            return f"{what.split()[0]} {name}: {what}"
        if np.any(~np.isfinite(b.astype(np.complex64)) & (b.dtype.kind in "fc")):
            return ""  # JAX overflows here, and all later steps differ
    what = peers.difference(results[steps:], right[1], least)
    return f"SLOPE {what}" if what else ""


def shortest(seed: int, target: str = "interpreter") -> tuple[Program, str]:
    """The program of a seed and its error."""
    program = Program(seed)
    return program, fault_of(program, target)
