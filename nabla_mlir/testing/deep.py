"""Small programs under deep nestings of transforms, compiled, against the interpreter.

    python -m nabla_mlir.testing.fuzz --of deep --minutes 10 --seed 1

A program is a chain of one to three steps (`nabla_mlir.testing.deep_steps`) under three to five transforms; later steps read
earlier values several times. 64 programs are a family: they have one shape and dtype, and draw from a few kinds of steps and
transforms. So many of their kernels are equal and are compiled once, and a program often contains one kind twice (swarm
testing: A. Groce et al., ISSTA 2012). `nabla_mlir.testing.deep_batches` compiles a family and compares the results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import nabla_mlir as nm
from nabla_mlir import numpy as nnp
from nabla_mlir.staging.stages import Traced
from nabla_mlir.testing.deep_steps import STEPS, Map, Numbers, bounded, kind_of, real

FAMILY = 64  # consecutive programs with one shape and dtype
_DTYPES = {"float64": 6, "float32": 4, "complex128": 2, "complex64": 2, "int32": 1, "int64": 1, "float16": 1, "bfloat16": 1}
_SHAPES = (*((n,) for n in range(1, 10)), *((n,) for n in range(2, 10)), (0,), (3, 5), (1, 4), (7, 1), (2, 3))
# The largest factors by which transforms may multiply the operations of a program. A body has about twenty operations, and
# three derivatives give a factor of 9.
_GROWTHS = (4.0, 5.0, 6.0, 9.0)


# ---------------------------------------------------------------- transforms


def _direction(x: Any) -> Any:
    return 1 - 0.5 * x


def _applied(matrix: Any, x: Any) -> Any:
    return nnp.tensordot(matrix, x, x.ndim)


def _size(f: Map) -> Map:
    """A function whose real result depends on every element of f(x)."""
    return lambda x: nnp.sum(real(bounded(f(x))))


def _hvp(f: Map) -> Map:
    """The Hessian-vector product of the size of f(x)."""
    return lambda x: nm.hvp(_size(f))(x, _direction(x))


def _scanned(f: Map) -> Map:
    return lambda x: nm.scan(lambda c, _: (bounded(f(c)), c), x, None, length=2)[0]


def _remade(f: Map) -> Map:
    return lambda x: nm.scan(nm.checkpoint(lambda c, s: (bounded(f(c) + s), s)), x, nnp.stack([x, x + 1]))[0]


def _while(f: Map) -> Map:
    return lambda x: nm.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, bounded(f(c[1]))), (0, x))[1]


def _cond(f: Map) -> Map:
    return lambda x: nm.cond(real(x).sum() > 0.1, f, lambda x: x * f(x + 1), x)


def _mapped(f: Map) -> Map:
    return lambda x: nnp.sum(nm.vmap(f)(nnp.stack([x, x + 1, -x])), 0).astype(x.dtype)


def _mapped_with_argument(f: Map) -> Map:
    return lambda x: nm.vmap(lambda a, b: f(a) * b, (0, None), x.ndim)(nnp.stack([x, -x]), x)[..., 1]


def _ruled(f: Map) -> Map:
    """The function f with a custom tangent that differs from the true one."""

    def apply(x: Any) -> Any:
        """The value of f at x; the tangent of the rule is half of the product of tangent and argument."""
        with_rule = nm.custom_jvp(f)
        with_rule.defjvp(lambda primals, tangents: (f(*primals), 0.5 * tangents[0] * primals[0]))
        return with_rule(x)

    return apply


def _transposed(f: Map) -> Map:
    """The transpose of the linearisation of f at a point, applied twice, by reverse mode."""

    def apply(x: Any) -> Any:
        """The cotangent of the direction, for the cotangent x of the sum of both applications."""
        linear = nm.linearize(f, x)[1]
        return nm.vjp(lambda t: linear(t) + linear(bounded(t)), _direction(x))[1](x)[0]

    return apply


def _pulled_by_rule(f: Map) -> Map:
    """The function f with a custom cotangent that differs from the true one; its residuals are its argument and its value."""

    def apply(x: Any) -> Any:
        """The value of f at x, with the other cotangent in reverse mode."""
        with_rule = nm.custom_vjp(f)
        with_rule.defvjp(lambda a: (y := f(a), (a, y)), lambda residuals, ct: (0.5 * ct * residuals[0] + bounded(residuals[1]),))
        return with_rule(x)

    return apply


def _rematerialised(f: Map) -> Map:
    """The gradient of a checkpointed f whose policy stores matrix products."""
    policy = nm.checkpoint_policies.dots_saveable
    return lambda x: nm.grad(_size(nm.checkpoint(lambda a: f(a) * x, policy=policy)))(x)


@dataclass(frozen=True)
class Transform:
    """One kind of transform.

    Args:
      apply: a function from map to map.
      growth: the factor by which it multiplies the operations of a map, fitted to 76 programs.
      kinds: the kinds of dtypes, as letters (`deep_steps.STEPS`).
    """

    apply: Callable[[Map], Map]
    growth: float
    kinds: str = "fci"


TRANSFORMS: dict[str, Transform] = {
    "jacrev": Transform(lambda f: lambda x: _applied(nm.jacrev(f)(x), _direction(x)), 2.0, "f"),
    "jacfwd": Transform(lambda f: lambda x: _applied(nm.jacfwd(f)(x), x), 1.9, "f"),
    "hessian": Transform(lambda f: lambda x: _applied(nm.hessian(_size(f))(x), x), 5.2, "f"),
    "hvp": Transform(_hvp, 3.9, "f"),
    "grad": Transform(lambda f: lambda x: nm.grad(_size(f))(x), 3.1, "fc"),
    "vjp": Transform(lambda f: lambda x: nm.vjp(f, x)[1](_direction(x))[0], 1.7, "fc"),
    "jvp": Transform(lambda f: lambda x: nm.jvp(f, (x,), (_direction(x),))[1], 2.1, "fc"),
    "linearize": Transform(lambda f: lambda x: nm.linearize(f, x)[1](x), 1.9, "fc"),
    "map": Transform(_mapped, 1.4),
    "map beside": Transform(_mapped_with_argument, 1.4),
    "checkpoint": Transform(lambda f: lambda x: nm.checkpoint(f)(x) * x, 1.1),
    "scan": Transform(_scanned, 1.4),
    "checkpointed scan": Transform(_remade, 1.7),
    "while": Transform(_while, 1.4),
    "cond": Transform(_cond, 2.5),
    "rule": Transform(_ruled, 1.0, "f"),
    "reverse rule": Transform(_pulled_by_rule, 1.1, "f"),
    "transposed": Transform(_transposed, 2.2, "f"),
    "remat": Transform(_rematerialised, 3.3, "f"),
}


# ---------------------------------------------------------------- programs


@dataclass(frozen=True)
class Family:
    """The common properties of some programs: shape, dtype, and the kinds of steps and transforms.

    Args:
      number: the number of the family.
      dtype, shape: the dtype and shape of the argument.
      steps, transforms: the names from which its programs draw.
    """

    number: int
    dtype: str
    shape: tuple[int, ...]
    steps: tuple[str, ...]
    transforms: tuple[str, ...]

    @staticmethod
    def of(number: int) -> Family:
        """The family with this number; equal numbers give equal families."""
        rng = np.random.default_rng([number, 6])
        weights = np.array([*_DTYPES.values()], float)
        dtype = str(rng.choice([*_DTYPES], p=weights / weights.sum()))
        shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
        kind = _kind(dtype)
        steps = [name for name, step in STEPS.items() if kind in step.kinds]
        if dtype == "float64" and rng.integers(3):
            steps = [name for name in steps if not STEPS[name].is_costly]
        transforms = [name for name, transform in TRANSFORMS.items() if kind in transform.kinds]
        return Family(number, dtype, shape, _some(rng, steps, 5), _some(rng, transforms, 5))

    @property
    def kind(self) -> str:
        """The letter of its dtype."""
        return _kind(self.dtype)


def _kind(dtype: str) -> str:
    return kind_of(np.empty(0, _dtype(dtype)))


def _some(rng: Numbers, names: list[str], count: int) -> tuple[str, ...]:
    return tuple(str(name) for name in rng.choice(names, min(count, len(names)), replace=False))


def _dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


@dataclass(frozen=True)
class Deep:
    """A program: the seed determines all choices except the number of steps and the transforms."""

    seed: int
    steps: int
    transforms: tuple[str, ...]

    @staticmethod
    def of(seed: int) -> Deep:
        """The program with this seed, whose transforms multiply its operations by a bounded factor."""
        rng, family = np.random.default_rng([seed, 3]), Deep(seed, 1, ()).family
        names = [str(name) for name in rng.choice(family.transforms, int(rng.integers(3, 6)))]
        most = float(rng.choice(_GROWTHS)) / (2 if family.kind == "c" else 1)  # a complex number counts as two real numbers
        while math.prod(TRANSFORMS[name].growth for name in names) > most:
            largest = max(range(len(names)), key=lambda i: TRANSFORMS[names[i]].growth)
            smaller = [n for n in TRANSFORMS if TRANSFORMS[n].growth < TRANSFORMS[names[largest]].growth]
            names[largest] = str(rng.choice([n for n in smaller if family.kind in TRANSFORMS[n].kinds]))
        return Deep(seed, int(rng.integers(1, 4)), tuple(names))

    @functools.cached_property
    def family(self) -> Family:
        """The family of the program."""
        return Family.of(self.seed // FAMILY)

    @property
    def arguments(self) -> list[np.ndarray]:
        """The arguments: an array, and indices of its rows."""
        rng, family = np.random.default_rng([self.seed, 4]), self.family
        shape, dtype = family.shape, _dtype(family.dtype)
        k = rng.integers(0, max(shape[0], 1), shape[0]).astype(np.int32)
        if dtype.kind == "i":
            return [rng.integers(-9, 10, shape).astype(dtype), k]
        x = rng.normal(size=shape)
        return [(x + 1j * rng.normal(size=shape) if dtype.kind == "c" else x).astype(dtype), k]

    def _body(self, k: Any) -> Map:
        """A function of x: a chain of random steps, each of which reads two earlier values; it returns the sum of the last two
        values.

        `k` is the vector of indices that the steps may read.
        """

        def apply(x: Any) -> Any:
            """The sum of the last two values after random steps of the family on recent values; each call takes the same steps."""
            rng = np.random.default_rng([self.seed, 5])  # other numbers than those of the transforms (3) and the arguments (4)
            values = [x, bounded(x) + 1]
            for _ in range(self.steps):
                step = STEPS[self.family.steps[int(rng.integers(len(self.family.steps)))]]
                a, b = (values[-1 - int(rng.integers(min(len(values), 4)))] for _ in range(2))
                values.append(step.apply(rng, a, b, k).astype(x.dtype))
            return sum(values[-2:])

        return apply

    def _run(self, x: Any, k: Any) -> tuple[Any, ...]:
        """The results of the program for the array `x` and the indices `k`.

        They are the body, the transformed body, a selection between both, and the condition of the selection.
        """
        body = result = self._body(k)
        for name in self.transforms:
            result = TRANSFORMS[name].apply(result)
        y, z = body(x), result(x)
        greater = real(z) > real(y)
        return y, z, nnp.where(greater, y, z), greater

    def traced(self) -> Traced:
        """The traced program."""
        return nm.trace(self._run, *self.arguments, name=self.name)

    @property
    def is_donating(self) -> bool:
        """True if a call may write to the memory of its array."""
        return self.seed % 2 == 1

    @property
    def name(self) -> str:
        """The name of its entry point."""
        return f"f{self.seed}"

    def shorter(self) -> Iterator[Deep]:
        """Yields this program with fewer steps or transforms, the shortest first."""
        for k in range(len(self.transforms) + 1):
            for steps in range(1, self.steps + 1):
                if (k, steps) != (len(self.transforms), self.steps):
                    yield replace(self, steps=steps, transforms=self.transforms[:k])

    def __str__(self) -> str:
        shape = "x".join(map(str, self.family.shape))
        return f"{self.seed} ({self.family.dtype}[{shape}], {self.steps} steps, {', '.join(self.transforms) or 'no transform'})"
