"""The quantities that the laws of a record compare, as one traced function for each sample."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.ops.shape import concatenate, reshape, reverse, row
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.testing.cases import LawCase, active_operands
from nabla_mlir.transforms import jvp, linearize, vjp, vmap
from nabla_mlir.transforms.checkpointing import checkpoint

STEP = 1e-4  # the step of the central differences; their error is of order STEP**4 in f64
COPIES = 2  # the size of a mapped axis


class Laws:
    """The quantities of one case, computed in one trace from its operands."""

    def __init__(self, law: LawCase):
        """Draws the operands and the directions of derivatives for one case.

        `law` is a sample of an operation: the operation, its parameters and its operands.
        """
        self.law = law
        self.xs: list[np.ndarray] = law.draw()
        self.active: list[int] = active_operands(law, self.xs)
        rng = np.random.default_rng([7, *law.name.encode()])
        self.t: list[np.ndarray] = [_direction(rng, self.xs[i]) for i in self.active]
        self.u: list[np.ndarray] = [_direction(rng, self.xs[i]) for i in self.active]
        self.ct_seed = rng

    def inputs(self) -> list[np.ndarray]:
        """The operands, and two tangents of each differentiable operand."""
        return [*self.xs, *self.t, *self.u]

    def trace(self, *tensors: Tensor) -> dict[str, Any]:
        """All quantities by the names that `checks` compares, computed in one trace."""
        n, k = len(self.xs), len(self.active)
        xs, t, u = tensors[:n], tensors[n : n + k], tensors[n + k :]
        out: dict[str, Any] = {"value": self.law.apply(xs)}
        floats = [i for i, y in enumerate(out["value"]) if is_differentiable(y.dtype)]
        if k and floats:
            out |= self._derivatives(xs, t, u, floats)
        out |= self._batches(xs, t, floats if k else [])
        return out

    def _function(self, xs: Sequence[Tensor], floats: Sequence[int]) -> Any:
        """The results with the indices `floats` as a function of the active operands; the other operands are those in `xs`."""

        def f(*active: Tensor) -> list[Tensor]:
            """The floating-point results of the sample as a function of its active operands."""
            full = list(xs)
            for i, x in zip(self.active, active, strict=True):
                full[i] = x
            outs = self.law.apply(full)
            return [outs[i] for i in floats]

        return f

    def cotangents(self, outs: Sequence[Tensor]) -> list[np.ndarray]:
        """Random cotangents for the results `outs`; every call returns the same numbers."""
        rng = np.random.default_rng([11, *self.law.name.encode()])
        return [
            (rng.uniform(-1, 1, y.shape) + (1j * rng.uniform(-1, 1, y.shape) if y.dtype.kind == "c" else 0)).astype(y.dtype)
            for y in outs
        ]

    def _derivatives(self, xs: Any, t: Any, u: Any, floats: Sequence[int]) -> dict[str, Any]:
        """The derivatives of first and second order by all modes, and values from which differences are taken, by name.

        `xs` are the operands, `t` and `u` two directions of the active ones, and `floats` the indices of the differentiable
        results.
        """
        f = self._function(xs, floats)
        active = [xs[i] for i in self.active]
        ys, dys = jvp(f, active, t)
        cts = self.cotangents(ys)

        def pulled(*a: Tensor) -> Any:
            """The cotangents of the active operands, at the point `a`."""
            return vjp(f, *a)[1](list(cts))

        def moved(scale: float) -> list[Tensor]:
            """The active operands, moved along the direction `t` by `scale`."""
            return [a + b * scale for a, b in zip(active, t, strict=True)]

        _, hvp = jvp(pulled, active, t)
        _, hvu = jvp(pulled, active, u)

        def pulled_through_checkpoint(*a: Tensor) -> Any:
            """The same cotangents, with the values recomputed in the backward pass."""
            return vjp(checkpoint(f), *a)[1](list(cts))

        _, pull_twice = vjp(pulled, *active)
        _, twice = jvp(lambda *a: jvp(f, a, t)[1], active, t)

        def pushed_along_itself(*a: Tensor) -> Any:
            """The tangents of the results in a direction that varies with the point, which no rule may take as constant."""
            return jvp(f, a, [x * d for x, d in zip(a, t, strict=True)])[1]

        _, pull_of_jvp = vjp(lambda *a: jvp(f, a, t)[1], *active)
        return {
            "vjp_jvp": pull_of_jvp(list(cts)),
            "jvp": dys,
            "vjp": pulled(*active),
            "cts": [*cts],
            "hvp": hvp,
            "hvu": hvu,
            "linearize": linearize(f, *active)[1](*t),
            "vjp_checkpoint": pulled_through_checkpoint(*active),
            "hvp_checkpoint": jvp(pulled_through_checkpoint, active, t)[1],
            "vjp_vjp": pull_twice(tuple(u)),
            "jvp_jvp": twice,
            "jvp_varying": jvp(pushed_along_itself, active, t)[1],
            "pushed_varying": [pushed_along_itself(*moved(s * STEP)) for s in (-2, -1, 1, 2)],
            "pulled": [pulled(*moved(s * STEP)) for s in (-2, -1, 1, 2)],
            "pushed": [jvp(f, moved(s * STEP), t)[1] for s in (-2, -1, 1, 2)],
            "moved": [f(*moved(s * STEP)) for s in (-2, -1, 1, 2)],
        }

    def _batches(self, xs: Any, t: Any, floats: Sequence[int]) -> dict[str, Any]:
        """The value and the derivatives by vmap ("vmap_...") and by a loop ("loop_..."), for every choice of mapped operands.

        `xs` are the operands, `t` a direction of the active ones, and `floats` the indices of the differentiable results. The name
        "vmap_02" means that operands 0 and 2 are mapped.
        """
        out: dict[str, Any] = {}
        subsets = [s for r in range(1, len(xs) + 1) for s in itertools.combinations(range(len(xs)), r)]
        for subset in subsets[:7]:
            axes = tuple(0 if i in subset else None for i in range(len(xs)))
            many = [_copies(x, COPIES) if i in subset else x for i, x in enumerate(xs)]
            rows = [[row(x, b) if i in subset else x for i, x in enumerate(many)] for b in range(COPIES)]
            name = "".join(map(str, subset))
            out[f"vmap_{name}"] = vmap(lambda *a: self.law.apply(a), axes)(*many)
            out[f"loop_{name}"] = _stacked([self.law.apply(row) for row in rows])
            if floats:

                def derivatives(*a: Tensor) -> Any:
                    """The derivatives of one entry: forward, reverse, and forward over reverse."""
                    f, active = self._function(a, floats), [a[i] for i in self.active]
                    ys, dys = jvp(f, active, t)

                    def pulled(*inner: Tensor) -> Any:
                        return vjp(f, *inner)[1](self.cotangents(ys))

                    return dys, pulled(*active), jvp(pulled, active, t)[1]

                out[f"vmap_d_{name}"] = vmap(derivatives, axes)(*many)
                out[f"loop_d_{name}"] = _stacked([derivatives(*row) for row in rows])
                if len(subset) == len(xs):
                    out[f"vmap_o_{name}"] = self._of_the_map(many, t, floats)
                    out[f"loop_o_{name}"] = out[f"loop_d_{name}"][:2]
            twice = vmap(vmap(lambda *a: self.law.apply(a), axes), axes)
            deep = [_copies(x, COPIES) if i in subset else x for i, x in enumerate(many)]
            out[f"vmap2_{name}"] = twice(*deep)
            out[f"loop2_{name}"] = _stacked(
                [
                    vmap(lambda *a: self.law.apply(a), axes)(*(row(x, b) if i in subset else x for i, x in enumerate(deep)))
                    for b in range(COPIES)
                ]
            )
        return out

    def _of_the_map(self, many: Sequence[Tensor], t: Sequence[Tensor], floats: Sequence[int]) -> Any:
        """The jvp and the vjp of the mapped function, with the same tangents `t` and cotangents in every entry.

        `many` are the operands with an axis of entries, and `floats` are the indices of the differentiable results.
        """

        def mapped(*active: Tensor) -> Any:
            """The floating-point results of the sample, mapped over a batch, as a function of its active operands."""
            full = list(many)
            for i, x in zip(self.active, active, strict=True):
                full[i] = x
            return vmap(lambda *a: [self.law.apply(a)[i] for i in floats])(*full)

        active = [many[i] for i in self.active]
        same = lambda x: concatenate(*[reshape(x, shape=(1, *x.shape))] * COPIES, dimension=0)  # noqa: E731
        ys, dys = jvp(mapped, active, [same(x) for x in t])
        cts = [np.stack([ct] * COPIES) for ct in self.cotangents([row(y, 0) for y in ys])]
        return dys, vjp(mapped, *active)[1](cts)


def _direction(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A random tangent of `x`. `rng` makes the random choices."""
    real = rng.uniform(-1, 1, x.shape)
    return real + 1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else real


def _copies(x: Tensor, n: int) -> Tensor:
    """A stack of n entries: x and x in reverse order, alternately."""
    reversal = x if not x.shape else reverse(x, dimensions=tuple(range(x.ndim)))
    return concatenate(*(reshape(x if i % 2 == 0 else reversal, shape=(1, *x.shape)) for i in range(n)), dimension=0)


def _stacked(rows: Sequence[Any]) -> Any:
    return optree.tree_map(lambda *leaves: concatenate(*(reshape(x, shape=(1, *x.shape)) for x in leaves), dimension=0), *rows)
