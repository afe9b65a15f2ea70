"""Measures how time, memory and compile time of Hessian-vector products grow with depth, width, length and size, and for JAX.

usage: python bench/growth.py [--only WORD ...] [--quick] [--out FOLDER]
Writes growth.json and growth.svg. The exponents are the slopes of straight lines through all sizes, in logarithms.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from large import Result, measure
from measuring import console, parse_words, save
from rich.table import Table
from workloads_large import GROWTH, Series

MEASURES = {"times": "time", "peak": "memory", "compile": "compile time"}
UNITS = {"times": (1e3, "ms"), "peak": (1e-6, "MB"), "compile": (1, "s")}


@dataclass
class Grown:
    """The measurements of a series: a result for each size."""

    title: str
    sizes: Sequence[int]
    results: list[Result]

    def values(self, what: str, side: str) -> list[float]:
        """The measured value for each size; NaN if the measurement failed."""
        return [getattr(r, what).get(side, float("nan")) for r in self.results]

    def exponent(self, what: str, side: str) -> float:
        """The exponent of the growth with the size."""
        values = np.array(self.values(what, side))
        known = values > 0
        return float(np.polyfit(np.log(np.array(self.sizes)[known]), np.log(values[known]), 1)[0]) if known.sum() > 1 else np.nan


def main() -> int:
    """Measures the series; returns 1 if a measurement failed."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "series", "without the largest size, and fewer calls", GROWTH)
    grown = [run(series, options.quick) for series in chosen]
    report(grown)
    content = {g.title: {f"{m} {side}": g.exponent(m, side) for m in MEASURES for side in ("nabla", "jax")} for g in grown}
    save(options.out / "growth.json", {"exponents": content, "results": [asdict(g) for g in grown]})
    draw(grown, options.out / "growth.svg")
    failed = [r for g in grown for r in g.results if r.failure]
    for r in failed:
        console.print(f"[bold red]FAILED[/bold red] {r.title}: {r.failure}")
    return int(bool(failed))


def run(series: Series, quick: bool) -> Grown:
    """Measures each size of a series."""
    count = len(series.sizes) - quick
    results = []
    for workload in series.workloads[:count]:
        with console.status(f"{workload.title} ..."):
            results.append(measure(workload, "hvp", quick=True, check=False))
    return Grown(series.title, series.sizes[:count], results)


def report(grown: Sequence[Grown]) -> None:
    """Prints a row for each series and measure: the values by size, and the exponents."""
    table = Table("", "", "ours", "JAX's", "exponent", "JAX's", title="Growth of the hvp", title_justify="left")
    for g in grown:
        for what, word in MEASURES.items():
            unit, name = UNITS[what]
            shown = [", ".join(f"{v * unit:,.3g}" for v in g.values(what, side)) + f" {name}" for side in ("nabla", "jax")]
            exponents = [f"{g.exponent(what, side):.2f}" for side in ("nabla", "jax")]
            title = f"{g.title} {', '.join(map(str, g.sizes))}" if what == "times" else ""
            table.add_row(title, word, *shown, *exponents)
    console.print(table)


def draw(grown: Sequence[Grown], path: Path) -> None:
    """Draws time, memory and compile time against the size in a row for each series, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(len(grown), len(MEASURES), figsize=(11, 2.6 * len(grown)), squeeze=False, layout="constrained")
    for g, axes in zip(grown, rows, strict=True):
        for (what, word), axis in zip(MEASURES.items(), axes, strict=True):
            unit, name = UNITS[what]
            for side, label, marker in (("nabla", "ours", "o"), ("jax", "jax.jit", "D")):
                values = np.array(g.values(what, side)) * unit
                axis.loglog(g.sizes, values, marker=marker, label=f"{label}: power {g.exponent(what, side):.2f}")
            axis.set(title=f"{word}, {name}", xlabel=g.title, xticks=g.sizes, xticklabels=map(str, g.sizes))
            axis.minorticks_off()
            axis.legend(fontsize=7)
    figure.savefig(path)
    console.print(f"Written: {path}")


if __name__ == "__main__":
    sys.exit(main())
