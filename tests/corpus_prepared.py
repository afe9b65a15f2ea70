"""The adapter of the corpus with prepared products: one linearisation, several vectors, another point, and back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent)]

from corpus_adapter import Arrays
from corpus_interpreted import CorpusAdapter as InterpretedAdapter
from prepared_xla import OnXla

from nabla_mlir import numpy as nnp


class CorpusAdapter(InterpretedAdapter):
    """Gives the corpus the product at its point after it has compared all else with products from scratch."""

    def hvp(self, f: Any, inputs: Arrays, argnums: Sequence[int], directions: Arrays, cotangents: Any) -> Arrays:
        rest = [i for i in range(len(inputs)) if i not in argnums]

        def scalar(x: Any, *data: Any) -> Any:
            every = dict(zip([*argnums, *rest], [*x, *data], strict=True))
            ys = f(*(every[i] for i in range(len(inputs))))
            ys = [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.dtype.kind in "fV"]
            cts = [np.ones((), y.dtype) for y in ys] if cotangents is None else cotangents
            return sum(nnp.sum(y * ct) for y, ct in zip(ys, cts, strict=True))

        points = [list(inputs), list(inputs)]
        for i in argnums:
            points[1][i] = (inputs[i] * 0.97).astype(inputs[i].dtype)
        H = OnXla(scalar, tuple(inputs[i] for i in argnums), *(inputs[i] for i in rest))
        move = lambda p: H.call("update", tuple(p[i] for i in argnums), *(p[i] for i in rest))  # noqa: E731
        move(points[0])
        first = H.call("apply", tuple(directions))
        other = [np.cos(np.arange(d.size)).reshape(d.shape).astype(d.dtype) for d in directions]
        both = H.call("apply_block", tuple(np.stack(pair) for pair in zip(directions, other, strict=True)))
        _agree("the block", [b[0] for b in both], first)
        _agree("the block", [b[1] for b in both], H.call("apply", tuple(other)))
        move(points[1])
        _agree("another point", H.call("apply", tuple(other)), super().hvp(f, points[1], argnums, other, cotangents))
        move(points[0])
        again = H.call("apply", tuple(directions))
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(again, first, strict=True)):
            raise AssertionError("the first point again gives another product")
        return list(first)


def _agree(what: str, got: Sequence[Any], wanted: Sequence[Any]) -> None:
    tolerance = 1e-8 if wanted[0].dtype == np.float64 else 1e-2
    for a, b in zip(got, wanted, strict=True):
        scale = max(float(np.max(np.abs(b), initial=0.0)), 1.0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=what)
