"""For every record, every choice of mapped operands and prefixes of up to three axes: rule of map = map of rule = loop.

The same holds for the record on vectorised tensors, which carry the axes by name.

A run checks a sample of the prefixes of each record; NABLA_MLIR_SEED=n is another sample.
With NABLA_MLIR_EVERY=1 it checks all of them: up to three axes of any sizes, at each a set of operands of its own.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xla import compiled_traced

import nabla_mlir as nm
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.testing.cases import LawCase, active_operands, law_cases
from nabla_mlir.transforms import jvp, vjp, vmap

CASES = law_cases()
SIZES = {1: [(2,), (1,), (0,)], 2: [(2, 3), (2, 2), (1, 2), (2, 0)], 3: [(2, 3, 2), (2, 2, 2), (2, 1, 3)]}
SAMPLE = {1: 5, 2: 4, 3: 2}  # of each depth
TOGETHER = 12  # prefixes in one program
EVERY = os.environ.get("NABLA_MLIR_EVERY") == "1"
SEED = os.environ.get("NABLA_MLIR_SEED", "0")


@dataclass(frozen=True)
class Prefix:
    """The sizes of the mapped axes, outermost first, and for each operand which of them it carries."""

    sizes: tuple[int, ...]
    carried: tuple[tuple[bool, ...], ...]

    def shape(self, i: int) -> tuple[int, ...]:
        return tuple(self.sizes[k] for k in self.axes(i))

    def axes(self, i: int) -> list[int]:
        return [k for k, c in enumerate(self.carried[i]) if c]

    @property
    def order(self) -> list[int]:
        """The axes by their first appearance in the operands."""
        return list(dict.fromkeys(k for i in range(len(self.carried)) for k in self.axes(i)))


def mapped(f: Callable[..., Any], sizes: Sequence[int], carried: Sequence[Sequence[bool]]) -> Callable[..., Any]:
    """One map for each axis, the innermost first."""
    for level in reversed(range(len(sizes))):
        f = vmap(f, tuple(0 if c[level] else None for c in carried), axis_size=sizes[level])
    return f


def on_vectorised(law: LawCase, xs: Sequence[Any], prefix: Prefix) -> list[Any]:
    """The record on operands whose mapped axes have names; the whole of its results."""
    named = [nm.vectorize(x, [str(k) for k in prefix.axes(i)]) for i, x in enumerate(xs)]
    return [nm.devectorize(y) for y in law.apply(named)]


class Rules:
    """Value, jvp and vjp of one record as functions of flat arguments: operands, tangents of active ones, cotangents."""

    def __init__(self, law: LawCase):
        self.law, self.operands = law, law.draw()
        self.active = active_operands(law, self.operands)
        # Which results are differentiated, and their types.
        probe = compiled_traced(lambda *xs: law.apply(xs), self.operands)(self.operands)
        self.floats = [i for i, y in enumerate(probe) if is_differentiable(y.dtype)] if self.active else []
        self.outs = [probe[i] for i in self.floats]
        if not self.floats:
            self.active = []

    def function(self, xs: Sequence[Any], apply: Callable[..., Any]) -> Callable[..., Any]:
        def f(*active: Any) -> list[Any]:
            full = list(xs)
            for i, x in zip(self.active, active, strict=True):
                full[i] = x
            outs = apply(*full)
            return [outs[i] for i in self.floats]

        return f

    def split(self, args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        n, k = len(self.operands), len(self.active)
        return args[:n], args[n : n + k], args[n + k :]

    def all(self, *args: Any, apply: Callable[..., Any] | None = None) -> dict[str, Any]:
        """The value, and the rules applied to `apply`, the record itself if it is not given."""
        apply = apply or (lambda *xs: self.law.apply(xs))
        xs, ts, cts = self.split(args)
        found = {"value": apply(*xs)}
        if self.active:
            f, active = self.function(xs, apply), [xs[i] for i in self.active]
            found |= {"jvp": jvp(f, active, list(ts))[1], "vjp": list(vjp(f, *active)[1](list(cts)))}
        return found


def draw(rules: Rules, prefix: Prefix) -> tuple[list[np.ndarray], list[tuple[bool, ...]]]:
    """Arguments whose entries all differ, where the record leaves them free, and which axes each carries."""
    law, everywhere = rules.law, (True,) * len(prefix.sizes)

    def stacked(shape: tuple[int, ...], make: Callable[[int], np.ndarray]) -> np.ndarray:
        entries = [make(seed) for seed in range(max(math.prod(shape), 1))][: math.prod(shape)]
        return np.reshape(entries, (*shape, *make(0).shape)).astype(make(0).dtype)

    def noise(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng([like.size, len(shape)])
        x = rng.uniform(-1, 1, (*shape, *like.shape))
        return (x + (1j * rng.uniform(-1, 1, x.shape) if like.dtype.kind == "c" else 0)).astype(like.dtype)

    xs = [stacked(prefix.shape(i), lambda seed, i=i: law.draw(seed)[i]) for i in range(len(rules.operands))]
    ts = [noise(prefix.shape(i), rules.operands[i]) for i in rules.active]
    cts = [noise(prefix.sizes, y) for y in rules.outs]
    carried = [*prefix.carried, *(prefix.carried[i] for i in rules.active), *(everywhere for _ in rules.outs)]
    return [*xs, *ts, *cts], carried


def check(law: LawCase, prefixes: Sequence[Prefix]) -> None:
    """The maps of one record in few programs; the loop is another, which runs entry by entry."""
    rules = Rules(law)
    single = compiled_traced(rules.all, draw(rules, Prefix((), ((),) * len(rules.operands)))[0])
    # Those without entries apart: the interpreter does not take them.
    for some in ([p for p in prefixes if 0 not in p.sizes], [p for p in prefixes if 0 in p.sizes]):
        for start in range(0, len(some), TOGETHER):
            check_together(rules, some[start : start + TOGETHER], single)


def check_together(rules: Rules, prefixes: Sequence[Prefix], single: Callable[..., Any]) -> None:
    law, drawn = rules.law, [draw(rules, prefix) for prefix in prefixes]

    def run(*flat: Any) -> list[Any]:
        outs, at = [], 0
        for prefix, (arguments, carried) in zip(prefixes, drawn, strict=True):
            args, at = flat[at : at + len(arguments)], at + len(arguments)

            def apply(*xs: Any, prefix: Prefix = prefix) -> Any:
                return mapped(lambda *inner: law.apply(inner), prefix.sizes, prefix.carried)(*xs)

            named = on_vectorised(law, rules.split(args)[0], prefix)
            outs.append((mapped(rules.all, prefix.sizes, carried)(*args), rules.all(*args, apply=apply), named))
        return outs

    flat = [x for arguments, _ in drawn for x in arguments]
    found = compiled_traced(run, flat)(flat)
    for prefix, (arguments, carried), (outside, inside, named) in zip(prefixes, drawn, found, strict=True):
        for index in np.ndindex(prefix.sizes):
            entry = [
                x[tuple(k for k, c in zip(index, positions, strict=True) if c)]
                for x, positions in zip(arguments, carried, strict=True)
            ]
            for key, expected in single(entry).items():
                for got, want in zip(outside[key], expected, strict=True):
                    close(f"map of {key} at {index} of {prefix}", got[index], want)
        for a, b in zip(named, outside["value"], strict=True):
            close(f"on vectorised tensors, {prefix}", np.moveaxis(a, range(len(prefix.sizes)), prefix.order), b)
        for key in ("value", "jvp"):
            for a, b in zip(inside.get(key, []), outside.get(key, []), strict=True):
                close(f"{key} of map, {prefix}", a, b)
        for i, a, b in zip(rules.active, inside.get("vjp", []), outside.get("vjp", []), strict=True):
            summed = tuple(level for level, c in enumerate(prefix.carried[i]) if not c)
            close(f"vjp of map, {prefix}", a, b.sum(axis=summed))


def close(what: str, got: np.ndarray, want: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(want).max(initial=0.0)) if want.dtype.kind in "fc" else 1.0)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale, err_msg=what)


def prefixes(count: int, depth: int) -> Iterator[Prefix]:
    """All prefixes of so many axes: all sizes, and at each axis every set of operands that carry it, but the empty one."""
    for sizes in SIZES[depth]:
        for levels in itertools.product(subsets(count), repeat=depth):
            yield Prefix(sizes, tuple(zip(*levels, strict=True)))


def subsets(count: int) -> list[tuple[bool, ...]]:
    return [s for s in itertools.product((True, False), repeat=count) if any(s)]


def sample(law: LawCase) -> list[Prefix]:
    """Some of the prefixes of each depth."""
    rng, sets = random.Random(f"{SEED} {law.name}"), subsets(len(law.case.shapes))
    drawn = [
        (rng.choice(SIZES[depth]), [rng.choice(sets) for _ in range(depth)])
        for depth, count in SAMPLE.items()
        for _ in range(count)
    ]
    return list(dict.fromkeys(Prefix(sizes, tuple(zip(*levels, strict=True))) for sizes, levels in drawn))


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, marks=[pytest.mark.slow] * (law.number > 0 or "gamma" in law.name or "zeta" in law.name), id=law.name)
        for law in CASES
        if law.case.shapes
    ],
)
def test_maps_of_rules_and_rules_of_maps(law: LawCase) -> None:
    every = (prefix for depth in SIZES for prefix in prefixes(len(law.case.shapes), depth))
    check(law, list(every) if EVERY else sample(law))
