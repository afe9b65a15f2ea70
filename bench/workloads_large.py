"""The third set of workloads: programs of realistic size, and one program at growing sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import workloads_networks as net
from workload import Function, Workload, normal
from workloads import logistic, n_body
from workloads_large_networks import NETWORKS, gpt, gpt_inputs
from workloads_science import bundle, gaussian_process

# ---------------------------------------------------------------- science


def _logistic_inputs(rows: int, columns: int) -> tuple[Any, ...]:
    signs = np.sign(normal(rows, seed=1))
    return normal(columns, scale=columns**-0.5), normal(rows, columns), signs, np.float32(1e-3)


def _process_inputs(n: int) -> tuple[Any, ...]:
    params = {"scales": normal(6, scale=0.1) + np.float32(0.5), "noise": np.float32(-1), "height": np.float32(0.1)}
    return params, normal(n, 6), normal(n, seed=1)


def _bodies_inputs(n: int) -> tuple[Any, ...]:
    return normal(n, 3), np.abs(normal(n)) / n


def _bundle_inputs(cameras: int, points: int, observations: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    seen_by = normal(cameras, 11, scale=0.1)
    seen_by[:, 6] += 1  # focal length
    positions = normal(points, 3, scale=0.5) + np.array([0, 0, 5], np.float32)
    params = {"cameras": seen_by, "points": positions, "weights": 1 + normal(observations, scale=0.1)}
    who = rng.integers(0, cameras, observations).astype(np.int32)
    return params, who, rng.integers(0, points, observations).astype(np.int32), normal(observations, 2)


def flow(fw: Any) -> Function:
    """The distance of a pressure to an observed one, as a function of the logarithm of a conductivity in the plane.

    The pressure solves an elliptic equation on a grid by a fixed number of conjugate-gradient steps.
    """

    def loss(field: Any, source: Any, seen: Any) -> Any:
        k = fw.np.exp(field)
        across, down = 0.5 * (k[:, 1:] + k[:, :-1]), 0.5 * (k[1:] + k[:-1])

        def applied(u: Any) -> Any:
            east, south = across * (u[:, 1:] - u[:, :-1]), down * (u[1:] - u[:-1])
            out = fw.np.pad(east, ((0, 0), (1, 0))) - fw.np.pad(east, ((0, 0), (0, 1)))
            return u + out + fw.np.pad(south, ((1, 0), (0, 0))) - fw.np.pad(south, ((0, 1), (0, 0)))

        def step(state: Any, _: Any) -> Any:
            u, r, p, square = state
            image = applied(p)
            length = square / fw.np.sum(p * image)
            u, r = u + length * p, r - length * image
            after = fw.np.sum(r * r)
            return (u, r, r + (after / square) * p, after), None

        start = (0 * source, source, source, fw.np.sum(source * source))
        (u, _, _, _), _ = fw.scan(step, start, None, length=40)
        return fw.np.mean((u - seen) ** 2) + 1e-3 * fw.np.mean(field * field)

    return loss


def _flow_inputs(n: int) -> tuple[Any, ...]:
    return normal(n, n, scale=0.5), normal(n, n, seed=1), normal(n, n, seed=2)


SCIENCE = (
    Workload("process-large", "Gaussian process, n=1500", gaussian_process, lambda: _process_inputs(1500)),
    Workload("bodies", "2000 bodies", n_body, lambda: _bodies_inputs(2000)),
    Workload("logistic-200000", "logistic 200,000x500", logistic, lambda: _logistic_inputs(200_000, 500)),
    Workload("bundle-large", "bundle adjustment, 10⁵ seen", bundle, lambda: _bundle_inputs(100, 10_000, 100_000)),
    Workload("flow", "Darcy flow 256x256, CG inside", flow, lambda: _flow_inputs(256)),
)

_TWINS = {"lstm-large", "process-large", "bodies", "bundle-large", "flow"}
LARGE = (*NETWORKS, *SCIENCE, *(w.wide() for w in (*NETWORKS, *SCIENCE) if w.name in _TWINS))

# ---------------------------------------------------------------- growth


@dataclass(frozen=True)
class Series:
    """One program at growing sizes: the name of the size, and a workload for each size."""

    title: str
    sizes: Sequence[int]
    workloads: Sequence[Workload]


def _gpts(what: str, sizes: Sequence[int], **others: int) -> Series:
    def one(size: int) -> Workload:
        shape = {"layers": 4, "width": 128, "tokens": 64, "batch": 4, "words": 1024} | others | {what: size}
        return Workload(f"gpt-{what}-{size}", f"GPT, {size} {what}", gpt, gpt_inputs(**shape))

    return Series(f"GPT, {what}", sizes, [one(size) for size in sizes])


def _processes(sizes: Sequence[int]) -> Series:
    one = lambda n: Workload(f"process-{n}", f"Gaussian process, n={n}", gaussian_process, lambda: _process_inputs(n))  # noqa: E731
    return Series("Gaussian process, n", sizes, [one(n) for n in sizes])


def _recurrences(sizes: Sequence[int]) -> Series:
    one = lambda n: Workload(f"lstm-{n}", f"LSTM 128, {n} steps", net.gated("lstm"), net.gated_inputs(n, 32, 128, 128, 4))  # noqa: E731
    return Series("LSTM 128, steps", sizes, [one(n) for n in sizes])


GROWTH = (
    _gpts("layers", (2, 4, 8, 12)),
    _gpts("width", (64, 128, 256, 512), layers=2),
    _gpts("tokens", (32, 64, 128, 256), layers=2),
    _processes((250, 500, 1000, 2000)),
    _recurrences((25, 50, 100, 200)),
)
