"""Small programs under deep nestings of transforms, compiled, against the interpreter.

    python -m nabla_mlir.testing.fuzz --of deep --minutes 10 --seed 1

Each is a chain of operations on vectors of one to nine elements whose values are read several times (choices, pieces put together,
reversals, scatters, loops, branches), under two to five transforms. Several are compiled as one module. A difference that
rounding does not explain (`nabla_mlir.compiling.comparison`) is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.compiling.comparison import compare
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.dialects.regions import nested
from nabla_mlir.errors import NablaError
from nabla_mlir.interpreter import interpreted
from nabla_mlir.interpreter.rounding import Perturbation
from nabla_mlir.runtime import Executable
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.stages import Lowered, Traced
from nabla_mlir.targets import target as as_target

Map = Callable[[Any], Any]  # from a vector to one like it
Numbers = np.random.Generator
_DTYPES = ("float64", "float64", "float32")


# ---------------------------------------------------------------- bodies


def _scattered(rng: Numbers, x: Any, y: Any) -> Any:
    places = rng.integers(0, x.shape[0], x.shape[0])
    at = x.at[places]
    return (at.add(y), at.set(y[0]), at.multiply(y), at.max(y))[int(rng.integers(4))]


def _joined(rng: Numbers, x: Any, y: Any) -> Any:
    k = int(rng.integers(x.shape[0] + 1))
    return nnp.concatenate([x[k:], y[:k]])


def _summed(rng: Numbers, x: Any, y: Any) -> Any:
    return (nnp.cumsum(x) * 0.3, nnp.sum(x * y) * x, nnp.mean(x) - y, nnp.max(x) + y, nnp.flip(nnp.cumsum(y)))[int(rng.integers(5))]


def _looped(rng: Numbers, x: Any, y: Any) -> Any:
    kind = int(rng.integers(4))
    if kind == 0:
        return nm.fori_loop(0, 2, lambda i, c: nnp.sin(c) * y + i, x)
    if kind == 1:
        return nm.scan(lambda c, s: (nnp.tanh(c * s), c + s), x[0], y)[1]
    if kind == 2:
        return nm.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, nnp.where(c[1] > 0, c[1] * 0.5, nnp.cos(c[1]))), (0, x))[1]
    return nm.cond(nnp.sum(x) > 0, lambda: nnp.sin(x) * y, lambda: y - x)


# Of one or two values, with choices of its own.
_STEPS: tuple[Callable[[Numbers, Any, Any], Any], ...] = (
    lambda rng, x, y: x * y, lambda rng, x, y: x * y, lambda rng, x, y: x + y, lambda rng, x, y: x - 0.7 * y,
    lambda rng, x, y: nnp.sin(x), lambda rng, x, y: nnp.tanh(x) + y, lambda rng, x, y: nnp.exp(-x * x),
    lambda rng, x, y: nnp.logaddexp(x, y), lambda rng, x, y: nnp.hypot(x, y), lambda rng, x, y: nnp.hypot(x, x[::-1]),
    lambda rng, x, y: x / (1.5 + y * y), lambda rng, x, y: nnp.sqrt(1.2 + x * x), lambda rng, x, y: nnp.log1p(y * y),
    lambda rng, x, y: nnp.where(x > 0, x, y), lambda rng, x, y: nnp.where(_mask(rng, x), x, 0.0),
    lambda rng, x, y: nnp.where(_mask(rng, x), x, y), lambda rng, x, y: nnp.where(_mask(rng, x) & (y > 0), x, 1.0),
    lambda rng, x, y: nnp.maximum(x, y), lambda rng, x, y: nnp.minimum(x, 0.5), lambda rng, x, y: nnp.abs(x) * y,
    lambda rng, x, y: x[::-1], lambda rng, x, y: nnp.roll(x, 1) * y, lambda rng, x, y: nnp.sort(x), lambda rng, x, y: x**3,
    _joined, _scattered, _summed, _looped,
)  # fmt: skip


def _mask(rng: Numbers, x: Any) -> np.ndarray:
    return rng.integers(0, 2, x.shape[0]).astype(bool)


def _body(seed: int, steps: int) -> Map:
    """A chain of steps, each of which reads two of the values before; the last few are added up."""

    def apply(x: Any) -> Any:
        rng = np.random.default_rng([seed, 5])
        values = [x, nnp.cos(x)]
        for _ in range(steps):
            step = _STEPS[int(rng.integers(len(_STEPS)))]
            a, b = (values[-1 - int(rng.integers(min(len(values), 4)))] for _ in range(2))
            values.append(nnp.tanh(step(rng, a, b)).astype(x.dtype))
        return sum(values[-3:])

    return apply


# ---------------------------------------------------------------- transforms


def _direction(x: Any) -> Any:
    return nnp.cos(3 * x)


TRANSFORMS: dict[str, Callable[[Map], Map]] = {
    "jacrev": lambda f: lambda x: nm.jacrev(f)(x) @ _direction(x),
    "jacfwd": lambda f: lambda x: nm.jacfwd(f)(x) @ x,
    "vjp": lambda f: lambda x: nm.vjp(f, x)[1](_direction(x))[0],
    "jvp": lambda f: lambda x: nm.jvp(f, (x,), (_direction(x),))[1],
    "linearize": lambda f: lambda x: nm.linearize(f, x)[1](x),
    "grad": lambda f: nm.grad(lambda x: nnp.sum(nnp.sin(f(x)))),
    "hvp": lambda f: lambda x: nm.hvp(lambda x: nnp.sum(f(x) * x))(x, _direction(x)),
    "vmap": lambda f: lambda x: nnp.sum(nm.vmap(f)(nnp.stack([x, 0.5 * x, -x])), 0),
    "checkpoint": lambda f: lambda x: nm.checkpoint(f)(x) * x,
    "scan": lambda f: lambda x: nm.scan(lambda c, _: (nnp.tanh(f(c)), c), x, None, length=2)[0],
    "cond": lambda f: lambda x: nm.cond(x[0] > 0.1, f, lambda x: x * f(0.5 * x), x),
}  # fmt: skip


BATCH = 8  # programs in one compiled module
_MOST_ORDERS = 3  # of derivatives: the fourth of such a body has thousands of operations
_MOST_OPERATIONS = 2_000


def _order(transform: str) -> int:
    return 2 if transform == "hvp" else int(transform not in ("vmap", "checkpoint", "scan", "cond"))


@dataclass(frozen=True)
class Deep:
    """A program by its seed, which decides all but the number of its steps and the transforms."""

    seed: int
    steps: int
    transforms: tuple[str, ...]

    @staticmethod
    def of(seed: int) -> Deep:
        """The program of a seed."""
        rng = np.random.default_rng([seed, 3])
        names = [str(name) for name in rng.choice(list(TRANSFORMS), int(rng.integers(2, 6)))]
        while sum(map(_order, names)) > _MOST_ORDERS:
            names.pop()
        return Deep(seed, int(rng.integers(2, 7)), tuple(names))

    @property
    def arguments(self) -> list[np.ndarray]:
        """One vector of one to nine elements."""
        rng = np.random.default_rng([self.seed, 4])
        return [rng.normal(size=int(rng.integers(1, 10))).astype(_DTYPES[self.seed % 3])]

    def traced(self) -> Traced:
        """The body, and what all transforms make of it, as two results that share values."""
        body = result = _body(self.seed, self.steps)
        for name in self.transforms:
            result = TRANSFORMS[name](result)
        return nm.trace(lambda x: (body(x), result(x)), *self.arguments, name=self.name)

    @property
    def name(self) -> str:
        """The name of its entry point."""
        return f"f{self.seed}"

    def shorter(self) -> Iterator[Deep]:
        """The same with fewer steps or transforms, the shortest first."""
        for k in range(len(self.transforms) + 1):
            for steps in range(1, self.steps + 1):
                if (k, steps) != (len(self.transforms), self.steps):
                    yield replace(self, steps=steps, transforms=self.transforms[:k])

    def __str__(self) -> str:
        x = self.arguments[0]
        return f"{self.seed} ({x.dtype}[{x.size}], {self.steps} steps, {', '.join(self.transforms) or 'no transform'})"


def faults_of(programs: Sequence[Deep], target: str = "cpu") -> list[tuple[Deep, str]]:
    """The programs, compiled together, that fail or whose numbers differ, each with what is wrong."""
    faults, stages = [], dict[Deep, Lowered]()
    for program in programs:
        try:
            stage = program.traced().lower()
            if len(nested(stage.module.operation)) <= _MOST_OPERATIONS:
                stages[program] = stage
        except NablaError as error:
            faults.append((program, f"not lowered: {type(error).__name__}: {error.message[:200]}"))
    if not stages:
        return faults
    whole = nm.module(**{program.name: stage for program, stage in stages.items()})  # type: ignore[arg-type]
    machine = as_target(target)
    try:
        executable = Executable.load(compile_lowered(whole.module, machine, cache=False), machine.drivers[0])
    except NablaError as error:
        if len(stages) == 1:
            return [*faults, (next(iter(stages)), f"not compiled: {error.message[:300]}")]
        parts = list(stages)
        half = len(parts) // 2
        return [*faults, *faults_of(parts[:half], target), *faults_of(parts[half:], target)]
    for program, stage in stages.items():
        if what := _difference(program, stage, executable):
            faults.append((program, what))
    return faults


def _difference(program: Deep, stage: Lowered, executable: Executable) -> str:
    """The first fault of two calls, in words; "" if there is none."""
    operation, inputs = stage.module.operation, program.arguments
    wanted = interpreted(operation, program.name)(inputs)

    def perturbed(k: int) -> list[np.ndarray]:
        noise = Perturbation(k)
        return interpreted(operation, program.name, noise)([noise.perturbed(x) for x in inputs])

    for call in ("first", "second"):
        try:
            arguments = [Array.from_numpy(x, executable.device) for x in inputs]
            got = [np.asarray(y) for y in executable.function(program.name)(arguments)]
        except NablaError as error:
            return f"the {call} call fails: {error.message[:300]}"
        if (difference := compare(got, wanted, perturbed).difference) is not None:
            return f"in the {call} call {difference}"
    return ""


def shrunk(program: Deep, what: str, target: str = "cpu") -> tuple[Deep, str]:
    """The shortest program like it that is wrong in the same way, and how."""
    kind = what.partition(" ")[0]
    for shorter in program.shorter():
        for _, other in faults_of([shorter], target):
            if other.partition(" ")[0] == kind:
                return shorter, other
    return program, what
