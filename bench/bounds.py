"""The parts of the time of HVPs: kernels, copies and bytes of both sides, and the time that the machine needs at its measured
memory bandwidth and peak rate. Data in a cache can be faster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import console, drawing
from rich.table import Table

from nabla_mlir import runtime
from nabla_mlir.runtime.profile import Machine
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.tools.bench import timing_of

_NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}


@dataclass(frozen=True)
class RooflinePoint:
    """The bounds of one workload: the seconds that the machine needs, and the kernels and copies of a call and of XLA."""

    bound: float
    kernels: float
    copies: float
    bytes: int
    xla_kernels: int
    xla_bytes: int


def roofline_point(path: Path, flops: int, xla: tuple[int, int], machine: Machine) -> RooflinePoint:
    """The bounds of the `hvp` of an artifact; arguments and results are moved once."""
    timing = timing_of(runtime.load(path), Artifact(path), "hvp", flops)
    return RooflinePoint(machine.bound(timing.bytes, flops), timing.kernels, timing.copies, timing.bytes, *xla)


def xla_figures(compiled: Any) -> tuple[int, int]:
    """The number of executed instructions of the entry computation (a loop is one), and their moved bytes as stated by XLA."""
    entry = compiled.as_text().partition("\nENTRY ")[2].partition("\n}")[0]
    names = re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(", entry, re.MULTILINE)
    costs = compiled.cost_analysis()
    return sum(name not in _NO_KERNEL for name in names), int(costs.get("bytes accessed", 0))


def report(titles: Sequence[str], points: Sequence[RooflinePoint], times: Sequence[tuple[float, float]], machine: Machine) -> None:
    """Prints the table; `times` are those of nabla_mlir and JAX."""
    heading = f"Where the time of the hvp goes ({machine.bandwidth / 1e9:.0f} GB/s, {machine.peak / 1e9:.0f} GFLOP/s in f32)"
    table = Table(title=heading, title_justify="left")
    for column in (
        "",
        "bound µs",
        "ours / bound",
        "JAX / bound",
        "dispatches",
        "copies",
        "XLA's",
        "bytes in and out",
        "moved by XLA",
    ):
        table.add_column(column, justify="right" if table.columns else "left")
    for title, point, (ours, theirs) in zip(titles, points, times, strict=True):
        table.add_row(
            title,
            f"{point.bound * 1e6:,.1f}",
            f"{ours / point.bound:.1f}",
            f"{theirs / point.bound:.1f}",
            f"{point.kernels:,.0f}",
            f"{point.copies:,.0f}",
            f"{point.xla_kernels:,}",
            f"{point.bytes:,}",
            f"{point.xla_bytes:,}",
        )
    console.print(table)


def draw(titles: Sequence[str], points: Sequence[RooflinePoint], times: Sequence[tuple[float, float]], path: Path) -> None:
    """Draws a row for each workload: the bound, the time of nabla_mlir, and the time of JAX."""
    columns = [np.array([point.bound for point in points]), *np.array(times).T]
    shapes = (("|", "black", "what the machine needs"), ("o", "tab:blue", "ours"), ("D", "tab:orange", "jax.jit"))
    label = "µs of one Hessian-vector product (less is better)"
    with drawing(titles, 0.32 * len(titles) + 1.4, label, path) as axes:
        rows = np.arange(len(titles))
        axes.hlines(rows, np.min(columns, axis=0) * 1e6, np.max(columns, axis=0) * 1e6, color="lightgray", zorder=0)
        for seconds, (marker, color, name) in zip(columns, shapes, strict=True):
            axes.scatter(seconds * 1e6, rows, marker=marker, color=color, label=name, s=36)
