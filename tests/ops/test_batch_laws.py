"""For every record, every choice of mapped operands and prefixes of up to three axes: rule of map = map of rule = loop."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from laws import LawCase, active_operands, law_cases
from xla import compiled_traced

from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.transforms import jvp, vjp, vmap

CASES = law_cases()


@dataclass(frozen=True)
class Prefix:
    """The sizes of the mapped axes, outermost first, and for each operand which of them it carries."""

    sizes: tuple[int, ...]
    carried: tuple[tuple[bool, ...], ...]

    def shape(self, i: int) -> tuple[int, ...]:
        return tuple(n for n, c in zip(self.sizes, self.carried[i], strict=True) if c)

    def entry(self, i: int, index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(k for k, c in zip(index, self.carried[i], strict=True) if c)


def mapped(f: Callable[..., Any], sizes: Sequence[int], carried: Sequence[Sequence[bool]]) -> Callable[..., Any]:
    """One map for each axis, the innermost first."""
    for level in reversed(range(len(sizes))):
        f = vmap(f, tuple(0 if c[level] else None for c in carried), axis_size=sizes[level])
    return f


class Rules:
    """Value, jvp and vjp of one record as functions of flat arguments: operands, tangents of active ones, cotangents."""

    def __init__(self, law: LawCase):
        self.law, self.operands = law, law.draw()
        self.legalize = law.record.name == "chlo.mulhi"  # which the code that XLA makes for CPUs cannot fuse
        self.active = active_operands(law, self.operands)
        # Which results are differentiated, and their types.
        probe = compiled_traced(lambda *xs: law.apply(xs), self.operands, legalize=self.legalize)(self.operands)
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
        entries = [make(seed) for seed in range(math.prod(shape))]
        return np.stack(entries).reshape((*shape, *entries[0].shape))

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
    """All prefixes of one record: one program for the maps, one for the loop, which runs entry by entry."""
    rules = Rules(law)
    drawn = [draw(rules, prefix) for prefix in prefixes]
    counts = [len(arguments) for arguments, _ in drawn]

    def run(*flat: Any) -> list[Any]:
        outs, at = [], 0
        for prefix, (_, carried), count in zip(prefixes, drawn, counts, strict=True):
            args, at = flat[at : at + count], at + count

            def apply(*xs: Any, prefix: Prefix = prefix) -> Any:
                return mapped(lambda *inner: law.apply(inner), prefix.sizes, prefix.carried)(*xs)

            outs.append((mapped(rules.all, prefix.sizes, carried)(*args), rules.all(*args, apply=apply)))
        return outs

    flat = [x for arguments, _ in drawn for x in arguments]
    single = None
    for prefix, (arguments, carried), (outside, inside) in zip(
        prefixes, drawn, compiled_traced(run, flat, legalize=rules.legalize)(flat), strict=True
    ):
        if single is None:
            entry = [x[tuple(0 for c in places if c)] for x, places in zip(arguments, carried, strict=True)]
            single = compiled_traced(rules.all, entry, legalize=rules.legalize)
        for index in np.ndindex(prefix.sizes):
            entry = [x[tuple(k for k, c in zip(index, places, strict=True) if c)]
                     for x, places in zip(arguments, carried, strict=True)]  # fmt: skip
            for key, expected in single(entry).items():
                for got, want in zip(outside[key], expected, strict=True):
                    close(f"map of {key} at {index} of {prefix}", got[index], want)
        for key in ("value", "jvp"):
            for a, b in zip(inside.get(key, []), outside.get(key, []), strict=True):
                close(f"{key} of map, {prefix}", a, b)
        for i, a, b in zip(rules.active, inside.get("vjp", []), outside.get("vjp", []), strict=True):
            summed = tuple(level for level, c in enumerate(prefix.carried[i]) if not c)
            close(f"vjp of map, {prefix}", a, b.sum(axis=summed))


def close(what: str, got: np.ndarray, want: np.ndarray) -> None:
    scale = max(1.0, float(np.abs(want).max(initial=0.0)) if want.dtype.kind in "fc" else 1.0)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale, err_msg=what)


def subsets(count: int) -> list[tuple[bool, ...]]:
    """Every choice of operands of which at least one is mapped; of the many of a long list, the first seven."""
    chosen = [s for s in itertools.product((True, False), repeat=min(count, 3)) if any(s)]
    return [(*s, *([s[-1]] * (count - len(s)))) for s in chosen]


def uniform(count: int, sizes: tuple[int, ...]) -> list[Prefix]:
    """The same operands mapped at every level."""
    return [Prefix(sizes, tuple((s,) * len(sizes) for s in subset)) for subset in subsets(count)]


def staggered(count: int, sizes: tuple[int, ...]) -> list[Prefix]:
    """Other operands mapped at each level."""
    choices = subsets(count)
    turned = [[choices[(k + shift) % len(choices)] for shift in range(len(sizes))] for k in range(len(choices))]
    return [Prefix(sizes, tuple(zip(*levels, strict=True))) for levels in turned]


def number_of_operands(law: LawCase) -> int:
    return len(law.case.shapes)


with_operands = [law for law in CASES if number_of_operands(law)]
first = [law for law in with_operands if law.number == 0]


@pytest.mark.parametrize("law", first, ids=lambda law: law.name)
def test_two_axes_of_different_sizes(law: LawCase) -> None:
    n = number_of_operands(law)
    check(law, uniform(n, (2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("law", first, ids=lambda law: law.name)
def test_three_axes_of_any_sizes(law: LawCase) -> None:
    n = number_of_operands(law)
    check(law, [*uniform(n, (2, 2, 3))[:1], *staggered(n, (2, 1, 2))])


@pytest.mark.slow
@pytest.mark.parametrize("law", [law for law in with_operands if law.number], ids=lambda law: law.name)
def test_further_samples(law: LawCase) -> None:
    n = number_of_operands(law)
    check(law, staggered(n, (2, 3)))
