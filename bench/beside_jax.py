"""Measurements of single calls beside JAX, and their report: a table, a JSON file and a drawing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measuring import console, cores, draw, geometric_mean, interleaved, save
from rich.table import Table


@dataclass(frozen=True)
class Result:
    """The seconds of a call and of the first call, which compiles, for nabla_mlir and JAX, and the difference of their values."""

    title: str
    ours: float
    jax: float
    our_compilation: float
    jax_compilation: float
    difference: float


def measure(
    title: str,
    calls: Mapping[str, Callable[[], Any]],
    read: Callable[[Any], Any],
    difference: Callable[[Any, Any], float],
    quick: bool,
) -> Result:
    """Measures the calls "ours" and "jax".

    Args:
      title: the title of the result.
      calls: the two calls; each returns when its values are computed.
      read: a function from a value to an array.
      difference: the relative difference of two such arrays.
      quick: True repeats less.
    """
    first, values = {}, {}
    for name, call in calls.items():
        start = time.perf_counter()
        values[name] = read(call())
        first[name] = time.perf_counter() - start
    seconds = interleaved(calls, quick)
    distance = float(difference(values["ours"], values["jax"]))
    return Result(title, seconds["ours"], seconds["jax"], first["ours"], first["jax"], distance)


def report(name: str, results: Sequence[Result], bound: float, unit: str, out: Path) -> int:
    """Prints, stores and draws results; returns 1 if a difference is not below the bound.

    Args:
      name: the name of the files and of the list in the JSON file.
      unit: "ms" or "µs".
      out: the folder.
    """
    scale, ratios = {"ms": 1e3, "µs": 1e6}[unit], [r.ours / r.jax for r in results]
    title = f"Ours / JAX's on {cores()} cores"
    table = Table("", unit, "ratio", "compiling, s", "difference", title=title, title_justify="left")
    for r, ratio in zip(results, ratios, strict=True):
        times, compiling = f"{r.ours * scale:.3g} / {r.jax * scale:.3g}", f"{r.our_compilation:.2f} / {r.jax_compilation:.2f}"
        table.add_row(r.title, times, f"{ratio:.2f}", compiling, f"{r.difference:.0e}")
    console.print(table)
    console.print(f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}")
    save(out / f"{name}.json", {name: [asdict(r) for r in results]})
    draw([r.title for r in results], {"our time": ratios}, "times JAX's", out / f"{name}.png")
    wrong = [r for r in results if not r.difference < bound]
    for r in wrong:
        console.print(f"[bold red]FAILED[/bold red] {r.title}: a difference of {r.difference:.1e}")
    return int(bool(wrong))
