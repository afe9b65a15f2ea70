"""Compares random programs of all dtypes with NumPy, and their derivatives with each other and with differences.

    python -m nabla_mlir.testing.fuzz --of mixtures --minutes 10 --seed 1

Each program is traced, lowered and interpreted; with `--target cpu` it is also compiled and called twice. Each of its steps
must give the value, shape and dtype of NumPy. For programs in f64, jvp is compared with central differences, vjp with jvp by
the adjoint identity, and nestings of transforms with each other. Some programs are called a second time, and by two threads
at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.jax.environment import enable_x64
from nabla_mlir.testing.checks import interpret
from nabla_mlir.testing.failures import failure
from nabla_mlir.testing.steps import AXIS, BINARY, DTYPES, STEPS, UNARY, Numbers

_SIZES = (0, 1, 1, 2, 3, 3, 4, 5, 7)
_DIGITS = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-9, "complex64": 2e-4, "complex128": 1e-9}


def _arguments(rng: Numbers, dtypes: Sequence[str]) -> list[np.ndarray]:
    """Three random arrays whose dtypes are drawn from `dtypes`; every fourth array of integers has the extreme values of its dtype.

    `rng` makes the random choices.
    """
    xs = []
    for _ in range(3):
        shape = tuple(int(n) for n in rng.choice(_SIZES, rng.integers(4)))
        dtype = np.dtype(str(rng.choice(dtypes)))
        if dtype.kind == "b":
            xs.append(rng.integers(0, 2, shape).astype(bool))
        elif dtype.kind in "iu":
            low = 0 if dtype.kind == "u" else -5
            x: Any = rng.integers(low, 6, shape)
            if rng.integers(4) == 0:  # the extreme values of the dtype
                x = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], shape) if dtype.itemsize < 8 else x
            xs.append(np.asarray(x).astype(dtype))
        else:
            x = rng.uniform(-1, 1, shape)
            xs.append(np.asarray(x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype))
    return xs


class Program:
    """A program of some steps, which NumPy runs while they are chosen."""

    def __init__(self, seed: int, steps: int = 4):
        """Draws the arguments, and chooses the steps."""
        rng = np.random.default_rng([seed, 77])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._choose(rng, seed, steps)

    def _choose(self, rng: Numbers, seed: int, steps: int) -> None:
        """Draws at most `steps` steps; NumPy computes their values, and a step on which it raises an error is skipped.

        Sets `arguments`; `plan`, whose entries are the name, the function, the numbers of the operands (arguments first, then
        steps) and the seed of a step; and `values`, the results of the steps. `rng` makes the random choices. Every third program
        has only float64, so that its derivatives can be compared with differences.
        """
        self.seed = seed
        self.dtypes: tuple[str, ...] = ("float64",) if seed % 3 == 0 else DTYPES
        self.arguments: list[np.ndarray] = _arguments(rng, self.dtypes)
        self.plan: list[tuple[str, Any, list[int], int]] = []
        values: list[Any] = list(self.arguments)
        tables = [UNARY, AXIS, BINARY, STEPS, STEPS]  # STEPS is drawn twice as often
        for _ in range(20 * steps):
            if len(self.plan) == steps:
                break
            table = tables[rng.integers(len(tables))]
            name, holds, f = table[rng.integers(len(table))]
            operands = [int(rng.integers(len(values)))]
            if table is BINARY:
                first = values[operands[0]]
                others = [i for i, v in enumerate(values) if holds(v) and v.shape in (first.shape, ())]
                operands.append(int(rng.choice(others)) if others else operands[0])
            if not all(holds(values[i]) for i in operands):
                continue
            step_seed = int(rng.integers(2**31))
            try:
                value = np.asarray(f(np, np.random.default_rng(step_seed), *(values[i] for i in operands)))
            except Exception:
                continue  # NumPy raises an error
            if value.size > 3000 or value.dtype.kind not in "biufc" or value.dtype.name not in DTYPES:
                continue
            if value.dtype.kind in "fc" and not (np.isfinite(value).all() and np.abs(value).max(initial=0) < 1e3):
                continue
            self.plan.append((name, f, operands, step_seed))
            values.append(value)
        self.values: list[Any] = values[3:]

    def __call__(self, xp: Any, *inputs: Any) -> list[Any]:
        """The value of each step for the arguments `inputs`, computed with the module `xp`: NumPy or nabla_mlir.numpy."""
        values = [xp.asarray(x) for x in inputs]
        for _name, f, operands, step_seed in self.plan:
            values.append(f(xp, np.random.default_rng(step_seed), *(values[i] for i in operands)))
        return values[3:]

    def __str__(self) -> str:
        """The types of the arguments, and the steps with the types of their values, in one line."""
        head = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.arguments)
        return f"{head} | " + "; ".join(
            f"v{i + 3}={n}({', '.join(f'v{k}' for k in o)}):{v.dtype}{list(v.shape)}"
            for i, ((n, _, o, _), v) in enumerate(zip(self.plan, self.values, strict=True))
        )


def _worst(values: Sequence[Any]) -> float:
    """The largest relative error that is allowed for the dtypes of some values."""
    return max((_DIGITS.get(np.asarray(v).dtype.name, 0.0) for v in values), default=0.0)


def check_values(program: Program) -> str:
    """The difference from NumPy; "" if there is none."""
    return _difference(program, interpret(lambda *xs: program(nnp, *xs), program.arguments))


def check_compiled(program: Program, target: str) -> str:
    """The difference from NumPy in two calls of code that is compiled for a target, as text; "" if there is none.

    `program` has the random steps, their arguments and NumPy's values.
    """
    compiled = nm.trace(lambda *xs: program(nnp, *xs), *program.arguments, name="main").lower().compile(target, cache=False)
    for call in ("first", "second"):
        if what := _difference(program, [np.asarray(y) for y in compiled(*program.arguments)]):
            return f"COMPILED {call} call: {what}"
    return ""


def _difference(program: Program, got: Sequence[Any]) -> str:
    """The first result of a step that differs from NumPy's, as text; "" if there is none.

    A result is right if it is close to NumPy's, or to what NumPy computes from our results of the steps before: a quotient by a
    logarithm near 0 may be far from NumPy's although both logarithms are right to the last digit.

    Args:
      program: the program, with NumPy's result of each step.
      got: our result of each step.
    """
    digits = max(_worst(program.arguments), _worst(program.values))
    values = [*program.arguments, *got]
    for i, (a, b) in enumerate(zip(got, program.values, strict=True)):
        name, f, operands, step_seed = program.plan[i]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"TYPE {name}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        wrong = _is_wrong(a, b, digits)
        if wrong.any():
            from_ours = np.asarray(f(np, np.random.default_rng(step_seed), *(values[k] for k in operands)))
            wrong &= _is_wrong(a, from_ours, digits)
        if wrong.any():
            position = tuple(int(k) for k in np.argwhere(wrong)[0])
            return f"VALUE {name}: {a[position]} instead of {b[position]} at {list(position)} of {b.dtype}"
    return ""


def _is_wrong(a: Any, b: Any, digits: float) -> Any:
    """The mask of the elements of `a` that differ from those of `b` by more than the relative error `digits`."""
    if b.dtype.kind in "biu" and not digits:
        return np.asarray(a != b)
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    scale = max(1.0, float(np.abs(b.astype(wide)).max(initial=0.0)))
    return np.asarray(~np.isclose(a.astype(wide), b.astype(wide), rtol=digits, atol=digits * scale, equal_nan=True))


def _same(a: Any, b: Any) -> bool:
    """True if two arrays have one shape, and differ by at most 1e-8 of the largest element."""
    scale = max(1.0, float(np.abs(b).max(initial=0.0)))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-8 * scale, equal_nan=True)


def check_derivatives(program: Program) -> str:
    """The difference between derivatives of the last result in f64 by several methods, as text; "" if there is none.

    The methods are the modes and transforms, the adjoint identity, and differences of NumPy's values. `program` has random steps
    and their arguments.
    """
    rng = np.random.default_rng(program.seed)
    if any(v.dtype.kind in "fc" and v.dtype != np.float64 for v in program.values):
        return ""
    last = [i for i, v in enumerate(program.values) if v.dtype == np.float64]
    if not last:
        return ""
    i, xs = last[-1], program.arguments
    t = [rng.uniform(-1, 1, x.shape) for x in xs]
    ct = rng.uniform(-1, 1, program.values[i].shape)
    f = lambda *a: program(nnp, *a)[i]  # noqa: E731

    def everything(*a: Any) -> Any:
        """All derivatives of f at the arguments, by name."""
        xs, t = a[:3], a[3:6]
        jv = nm.jvp(f, xs, t)[1]
        pull = lambda *x: nm.vjp(f, *x)[1](ct)  # noqa: E731
        lin = nm.linearize(f, *xs)[1](*t)
        total = lambda *x: (f(*x) * ct).sum()  # noqa: E731
        out = {
            "jvp": jv,
            "vjp": pull(*xs),
            "linearize": lin,
            "grad": nm.grad(total, (0, 1, 2))(*xs),
            "hvp": nm.jvp(pull, xs, t)[1],
            "vjp of jvp": nm.vjp(lambda *x: nm.jvp(f, x, t)[1], *xs)[1](ct),
            "map": nm.vmap(lambda *x: nm.jvp(f, x, t)[1])(*(nnp.stack([x, x]) for x in xs))[1],
            "map of vjp": [y[1] for y in nm.vmap(pull)(*(nnp.stack([x, x]) for x in xs))],
            "checkpoint": nm.grad(nm.checkpoint(total), (0, 1, 2))(*xs),
        }
        size = int(np.prod(xs[0].shape))
        if 0 < size * ct.size < 300:
            out["jacfwd"], out["jacrev"] = nm.jacfwd(f)(*xs), nm.jacrev(f)(*xs)
        return out

    got = interpret(everything, [*xs, *t])
    for a, b in (("linearize", "jvp"), ("map", "jvp")):
        if np.isfinite(got[a]).all() and not _same(got[a], got[b]):
            return f"DERIVATIVE {a} is not {b}"
    # At an infinite slope, only one of the two modes multiplies 0 by infinity and gives NaN.
    both = [got[name] for name in ("jacfwd", "jacrev") if name in got]
    if both and np.isfinite(both).all() and not _same(*both):
        return "DERIVATIVE jacrev is not jacfwd"
    for a, b in (("grad", "vjp"), ("map of vjp", "vjp"), ("checkpoint", "vjp"), ("vjp of jvp", "hvp")):
        if all(np.isfinite(p).all() for p in got[b]) and not all(_same(p, q) for p, q in zip(got[a], got[b], strict=True)):
            return f"DERIVATIVE {a} is not {b}"
    if not all(np.isfinite(p).all() for p in (got["jvp"], *got["vjp"])):
        return ""  # a kink with infinite slope
    left, right = float((ct * got["jvp"]).sum()), float(sum((p * q).sum() for p, q in zip(got["vjp"], t, strict=True)))
    scale = max(1.0, *(float(np.abs(p * q).sum()) for p, q in zip([ct, *got["vjp"]], [got["jvp"], *t], strict=True)))
    if not np.isclose(left, right, rtol=1e-8, atol=1e-8 * scale):
        return f"DERIVATIVE adjoint: {left} and {right}"
    if any(name == "spacing" for name, *_ in program.plan):
        return ""  # fmod(x, spacing(x)) is 0 at each x of the dtype, and its slope by each rule is 1
    h = 1e-5
    steps = [[x + s * h * d for x, d in zip(xs, t, strict=True)] for s in (-2, -1, 1, 2)]
    try:
        p, q, r, s = (np.asarray(program(np, *point)[i]) for point in steps)
    except Exception:
        return ""
    wanted, coarse = (p - 8 * q + 8 * r - s) / (12 * h), (r - q) / (2 * h)
    if not np.allclose(wanted, coarse, rtol=1e-4, atol=1e-4):  # a kink, or a step
        return ""
    if not np.allclose(wanted, got["jvp"], rtol=1e-4, atol=1e-4):
        position = tuple(int(k) for k in np.argwhere(~np.isclose(wanted, got["jvp"], rtol=1e-4, atol=1e-4))[0])
        forward = (r - np.asarray(program.values[i])) / h
        if np.isclose(forward[position], wanted[position], rtol=1e-3, atol=1e-3):
            return f"DERIVATIVE differences: {got['jvp'][position]} instead of {wanted[position]} at {list(position)}"
    return ""


def check_repetition(program: Program) -> str:
    """A difference in bits between four calls of one traced program, as text; "" if there is none.

    The calls are the first one, a second one, and two in parallel threads.
    """
    f = nm.jit(lambda *xs: program(nnp, *xs))
    before: Any = nm.set_execution("interpret")
    try:
        first = [np.array(y) for y in f(*program.arguments)]
        with ThreadPoolExecutor(2) as pool:
            others = [f(*program.arguments), *pool.map(lambda _: f(*program.arguments), range(2))]
    finally:
        nm.set_execution(before)
    for other in others:
        for i, (a, b) in enumerate(zip(first, other, strict=True)):
            if a.tobytes() != np.asarray(b).tobytes():
                return f"AGAIN {program.plan[i][0]}: another call gives other bits"
    return ""


def fault_of(program: Program, target: str = "interpreter") -> str:
    """The error of a program, as text with its cause before a colon; "" if there is none."""
    with np.errstate(all="ignore"), warnings.catch_warnings(), enable_x64():
        warnings.simplefilter("ignore")
        return _fault_of(program, target)


def shortest(seed: int, target: str = "interpreter") -> tuple[Program, str]:
    """The program of a seed with the fewest steps that has an error, and the error; the whole program and "" without an error."""
    program = Program(seed)
    fault = fault_of(program, target)
    for steps in range(1, len(program.plan)) if fault else ():
        shorter = Program(seed, steps)
        if other := fault_of(shorter, target):
            return shorter, other
    return program, fault


def _fault_of(program: Program, target: str) -> str:
    """The first fault of a program, as text; "" if it passes all checks."""
    before = [x.copy() for x in program.arguments]
    try:
        what = check_values(program)
        if not what and target != "interpreter":
            what = check_compiled(program, target)
        if not what and program.seed % 3 == 0:
            what = check_derivatives(program)
        if not what and program.seed % 5 == 0:
            what = check_repetition(program)
    except Exception as error:
        return failure(error)
    if any(x.tobytes() != y.tobytes() for x, y in zip(program.arguments, before, strict=True)):
        return "WRITTEN argument"
    return what
