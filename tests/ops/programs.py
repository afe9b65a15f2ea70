"""Laws of a whole program given as StableHLO text: derivatives against differences, batches against loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xla import run_traced

import nabla_mlir as nm
from nabla_mlir import numpy as nnp

STEP = 1e-4  # of central differences of order 4, in f64


def check_program(text: str, xs: Sequence[np.ndarray], *, tolerance: float = 1e-7, smooth: bool = True) -> list[Any]:
    """Checks jvp, vjp, both second orders and vmap of the public function; returns its results.

    Args:
      text: a module whose floating-point arguments are f64.
      xs: its arguments; the floating-point ones are differentiated.
      smooth: False for a program whose second derivatives are not compared.
    """
    f = nm.from_stablehlo(text)
    xs = [np.asarray(x) for x in xs]
    active = [i for i, x in enumerate(xs) if x.dtype.kind == "f"]
    rng = np.random.default_rng(5)
    ts = [rng.uniform(-1, 1, xs[i].shape) for i in active]

    def quantities(*operands: Any) -> dict[str, Any]:
        inputs, directions = operands[: len(xs)], operands[len(xs) :]

        def g(*chosen: Any) -> list[Any]:
            full = list(inputs)
            for i, x in zip(active, chosen, strict=True):
                full[i] = x
            ys = f(*full)
            ys = ys if isinstance(ys, tuple) else (ys,)
            return [y for y in ys if y.dtype.kind == "f"]

        own = [inputs[i] for i in active]
        ys = g(*own)
        seed = np.random.default_rng(9)
        cts = [seed.uniform(-1, 1, y.shape) for y in ys]

        def pulled(*a: Any) -> Any:
            return nm.vjp(g, *a)[1](list(cts))

        def moved(scale: float) -> list[Any]:
            return [x + t * scale for x, t in zip(own, directions, strict=True)]

        many = [nnp.stack([x, x * 0.9]) if i in active else x for i, x in enumerate(inputs)]
        axes = tuple(0 if i in active else None for i in range(len(xs)))

        def derivatives(*a: Any) -> Any:
            def h(*chosen: Any) -> Any:
                full = list(a)
                for i, x in zip(active, chosen, strict=True):
                    full[i] = x
                ys = f(*full)
                return [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.dtype.kind == "f"]

            chosen = [a[i] for i in active]
            return nm.jvp(h, chosen, directions), nm.vjp(h, *chosen)[1](list(cts))

        rows = [derivatives(*(x[b] if i in active else x for i, x in enumerate(many))) for b in range(2)]
        return {
            "value": f(*inputs),
            "jvp": nm.jvp(g, own, directions)[1],
            "vjp": pulled(*own),
            "cts": cts,
            "hvp": nm.jvp(pulled, own, directions)[1],
            "vjp_vjp": nm.vjp(pulled, *own)[1](tuple(directions)),
            "moved": [g(*moved(s * STEP)) for s in (-2, -1, 1, 2)],
            "pulled": [pulled(*moved(s * STEP)) for s in (-2, -1, 1, 2)],
            "vmap": nm.vmap(derivatives, axes)(*many),
            "loop": rows,
        }

    got = run_traced(quantities, [*xs, *ts])
    _same("jvp", got["jvp"], _difference(got["moved"]), tolerance)
    left = sum(np.sum(c * y) for c, y in zip(got["cts"], got["jvp"], strict=True))
    right = sum(np.sum(c * t) for c, t in zip(got["vjp"], ts, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-11, err_msg="adjoint identity")
    if smooth:
        _same("hvp", got["hvp"], _difference(got["pulled"]), tolerance * 10)
        _same("vjp of vjp", got["vjp_vjp"], got["hvp"], 1e-8)
    stacked = [np.stack(rows) for rows in zip(*(_leaves(row) for row in got["loop"]), strict=True)]
    _same("vmap", _leaves(got["vmap"]), stacked, 1e-10)
    value = got["value"]
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _leaves(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [np.asarray(tree)]


def _difference(samples: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    return [(a - 8 * b + 8 * c - d) / (12 * STEP) for a, b, c, d in zip(*samples, strict=True)]


def _same(what: str, got: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    for a, b in zip(got, expected, strict=True):
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=what)
