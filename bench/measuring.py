"""The common parts of the benchmarks: the command line, the inputs, the clock, and the shown and stored results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from workload import Workload
from workloads import WORKLOADS
from workloads_large import GROWTH, LARGE
from workloads_large_others import OTHERS
from workloads_sweep import SWEEP

from nabla_mlir.runtime.timing import median

HERE = Path(__file__).parent
_GROWING = [w for series in GROWTH for w in series.workloads]
KNOWN = {w.name: w for w in (*WORKLOADS, *SWEEP, *LARGE, *OTHERS, *_GROWING)}
console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def parse(description: str, quick: str) -> tuple[argparse.Namespace, list[Workload]]:
    """Returns the options of the command line and the selected workloads; makes the folder for the results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"some of {', '.join(KNOWN)}")
    parser.add_argument("--sweep", action="store_true", help="the second set of workloads instead of the first")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(KNOWN):
        parser.error(f"--only requires names among {', '.join(KNOWN)}, got {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only:
        return options, [KNOWN[name] for name in options.only]
    return options, [w for w in (SWEEP if options.sweep else WORKLOADS) if w.quick or not options.quick]


def parse_words(description: str, kinds: str, quick: str, choices: Sequence[Any]) -> tuple[argparse.Namespace, list[Any]]:
    """Returns the options of the command line, and the cases whose titles contain a given word; by default all cases."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", nargs="+", metavar="WORD", help=f"{kinds} whose title has one of these words")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [c for c in choices if not options.only or any(word in c.title for word in options.only)]
    if not chosen:
        parser.error(f"--only requires a word of {', '.join(c.title for c in choices)}, got {', '.join(options.only)}")
    return options, chosen


def direction(tree: Any) -> Any:
    """A pytree of random numbers with the structure and shapes of another one."""
    import jax

    rng = np.random.default_rng(7)
    return jax.tree.map(lambda a: rng.normal(size=a.shape).astype(a.dtype), tree)


def flat(tree: Any) -> np.ndarray:
    """All numbers of a pytree as one f64 vector."""
    import jax

    return np.concatenate([np.ravel(np.asarray(x)).astype(np.float64) for x in jax.tree.leaves(tree)])


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The norm of the difference divided by the norm of the wanted values."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def interleaved(calls: Mapping[str, Callable[[], Any]], quick: bool) -> dict[str, float]:
    """The median time of each call in its best round; rounds alternate, so that a disturbance affects all calls."""
    rounds, length = (5, 0.01) if quick else (25, 0.02)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], median(call, length))
    return best


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(ratios))))


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Writes JSON that begins with the versions and the machine."""
    versions = {name: version(name) for name in ("nabla-mlir", "iree-base-compiler", "jax", "numpy")}
    machine = {"machine": platform.machine(), "cores": cores(), "python": platform.python_version()}
    path.write_text(json.dumps({"versions": versions, "machine": machine, **content}, indent=1) + "\n")
    console.print(f"Written: {path}")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def drawing(titles: Sequence[str], height: float, label: str, path: Path) -> Iterator[Any]:
    """A context with the axes of a drawing: a row for each title and a logarithmic scale; saves the drawing at its end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
    yield axes
    axes.set(yticks=range(len(titles)), yticklabels=titles, xscale="log", xlabel=label)
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    console.print(f"Written: {path}")


def draw(titles: Sequence[str], ratios: Mapping[str, Sequence[float | None]], label: str, path: Path) -> None:
    """Draws ratios as bars, with one group of bars for each title."""
    from matplotlib import colormaps

    width = 0.8 / len(ratios)
    shades = colormaps["Blues"](np.linspace(0.35, 0.95, len(ratios)))
    with drawing(titles, 0.2 * len(ratios) * len(titles) + 1.6, label, path) as axes:
        for i, (name, values) in enumerate(ratios.items()):
            positions = np.arange(len(titles)) + (i - (len(ratios) - 1) / 2) * width
            lengths = [np.nan if value is None else value for value in values]
            bars = axes.barh(positions, lengths, 0.93 * width, label=name, color=shades[i])
            axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=6)
        axes.axvline(1, color="black", linewidth=0.8)
