"""Random programs of views, copies, writes, loops and branches on square matrices, for any NumPy-like library."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Library(NamedTuple):
    """What a program is written with: array functions, control flow and transforms."""

    xp: Any
    control: Any
    transforms: Any


class Step(NamedTuple):
    """One operation on two matrices x and y of size n, with two places i and j in them."""

    lib: Library
    n: int
    i: int
    j: int

    def index(self, y: Any) -> Any:
        """Places that depend on values."""
        return (self.lib.xp.abs(y) * 3).astype(np.int32) % self.n

    def scan(self, x: Any, y: Any) -> Any:
        carry, rows = self.lib.control.scan(lambda c, row: (c.at[self.i].set(row), c[self.j] * row), x, y)
        return carry + 0.1 * rows

    def repeat(self, x: Any, y: Any) -> Any:
        limit, start = 1.5 + self.lib.xp.abs(y[0, 0]), 0.0 * y[0, 0]
        body = lambda c: (c[0] + 1.0, c[1].at[self.i].add(c[1][self.j] * 0.5))  # noqa: E731
        return self.lib.control.while_loop(lambda c: c[0] < limit, body, (start, x))[1]

    def two_carries(self, x: Any, y: Any) -> Any:
        body = lambda k, c: (c[0].at[k].set(c[1][self.j]), c[1].at[:, k].set(c[0][self.i] * 0.5))  # noqa: E731
        return self.lib.control.fori_loop(0, self.n, body, (x, y))[self.i % 2]


Make = Callable[[Step, Any, Any], Any]
VIEWS: dict[str, Make] = {
    "reshape": lambda s, x, y: x.reshape(-1).reshape(s.n, s.n),
    "transpose": lambda s, x, y: x.T,
    "reverse": lambda s, x, y: x[::-1],
    "times one": lambda s, x, y: x * 1.0,
    "plus zero": lambda s, x, y: x + 0.0,
}
VALUES: dict[str, Make] = {
    "roll": lambda s, x, y: s.lib.xp.concatenate([x[1:], x[:1]]),
    "halves": lambda s, x, y: s.lib.xp.concatenate([x[: s.n // 2], y[s.n // 2 :]]),
    "sum": lambda s, x, y: x * 0.5 + y,
    "column sums": lambda s, x, y: x + y.sum(0),
    "choose": lambda s, x, y: s.lib.xp.where(x > y, x, y),
    "function": lambda s, x, y: s.lib.xp.tanh(x),
    "product": lambda s, x, y: s.lib.xp.tanh(x @ y),
    "cumulative": lambda s, x, y: s.lib.xp.cumsum(x, axis=s.i % 2) * 0.3,
    "gather": lambda s, x, y: x[s.index(y[:, s.j])],
    "order": lambda s, x, y: x[s.lib.xp.argsort(y[:, s.j])],
}
WRITES: dict[str, Make] = {
    "row": lambda s, x, y: x.at[s.i].set(y[s.j]),
    "column": lambda s, x, y: x.at[:, s.j].multiply(y[s.i, s.j]),
    "rows": lambda s, x, y: x.at[np.array([s.i, s.j, s.i])].add(y[:3]),
    "elements": lambda s, x, y: x.at[np.array([0, s.n - 1]), s.i].min(y[s.j, s.j]),
    "some row": lambda s, x, y: x.at[s.index(y[s.i, s.j])].set(y[s.j]),
    "some column": lambda s, x, y: x.at[:, s.index(y[s.i, s.j])].add(y[:, s.j]),
    "some rows": lambda s, x, y: x.at[s.index(y[:, s.j])].add(y),
    "sort": lambda s, x, y: s.lib.xp.sort(x, axis=s.i % 2),
    # Of values of the array itself.
    "shift": lambda s, x, y: x.at[1:].set(x[:-1]),
    "swap": lambda s, x, y: x.at[np.array([s.i, s.j])].set(x[np.array([s.j, s.i])]),
    "block": lambda s, x, y: x.at[:2, 1:3].set(y[1:3, :2]),
    "row to column": lambda s, x, y: x.at[:, s.i].set(x[s.j]),
    "turn": lambda s, x, y: x.at[:, :].set(x.T),
    "sums to row": lambda s, x, y: x.at[s.i].set(x.sum(0) * 0.3),
    "own row": lambda s, x, y: x.at[s.i].add(x[s.i] * y[s.j]),
    # In loops, branches and maps.
    "loop": lambda s, x, y: s.lib.control.fori_loop(0, s.n - 1, lambda k, c: c.at[k].set(c[k + 1] * 0.5 + y[s.j]), x),
    "branch": lambda s, x, y: s.lib.control.cond(y[0, 0] > 0, lambda x, y: x.at[s.i].set(y[s.j]), lambda x, y: x, x, y),
    "switch": lambda s, x, y: s.lib.control.switch(
        s.index(y[s.i, s.j]) % 3, [lambda x, y: x.at[s.j].set(y[s.i]), lambda x, y: y, lambda x, y: s.lib.xp.sort(x, axis=0)], x, y
    ),
    "map": lambda s, x, y: s.lib.transforms.vmap(lambda row, v: row.at[s.i].set(v))(x, y[s.j]),
    "scan": Step.scan,
    "two carries": Step.two_carries,
}
NO_REVERSE: dict[str, Make] = {"repeat": Step.repeat}  # what JAX does not differentiate in reverse mode
ALL = VIEWS | VALUES | WRITES | NO_REVERSE


def random_program(seed: int, lib: Library, captured: np.ndarray) -> Callable[[Any, Any], list[Any]]:
    """A function of two matrices that also reads a captured one; it returns the last value, and some of all.

    The attribute `steps` names its operations, with the places of their operands among the values so far.
    """
    rng, n = random.Random(seed), len(captured)
    steps: list[tuple[str, Step, float, float]] = []
    for _ in range(rng.randint(2, 9)):
        group = rng.choices([VIEWS, VALUES, WRITES, NO_REVERSE], [3, 4, 12, 1])[0]
        step = Step(lib, n, rng.randrange(n), rng.randrange(n))
        steps.append((rng.choice(list(group)), step, rng.random(), rng.random()))
    returned = [rng.random() for _ in range(rng.randint(1, 3))]

    def f(x: Any, y: Any) -> list[Any]:
        pool = [x, y, lib.xp.asarray(captured)]
        for name, step, first, second in steps:
            pool.append(ALL[name](step, *(pool[int(place * len(pool))] for place in (first, second))))
        return [pool[-1], *(pool[int(place * len(pool))] for place in returned)]

    f.steps = [name for name, *_ in steps]  # type: ignore[attr-defined]
    return f


def gradient(f: Callable[[Any, Any], list[Any]], lib: Library) -> Any:
    """The gradient of the sum of the squares of all results, with respect to both arguments."""
    return lib.transforms.grad(lambda x, y: sum((z * z).sum() for z in f(x, y)), (0, 1))
