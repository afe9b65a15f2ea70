"""Writes the table of docs/compared.md from the results of one run of bench/run.py.

usage: python bench/compared.py RESULTS.json docs/compared.md
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BEGIN, _END = "<!-- table: written by bench/compared.py -->", "<!-- end of the table -->"
_PEERS = ("jax", "torch.compile", "torch", "casadi")


def table(results: list[Mapping[str, Any]]) -> str:
    """The table of times in microseconds of Hessian-vector products and gradients, nabla_mlir first, with compile times."""
    head = "| workload | function | ours, µs | jax.jit | torch.compile | torch.func | CasADi | "
    head += "our compile time, s | JAX's compile time, s |\n"
    lines = [head, "|---|---|---|---|---|---|---|---|---|\n"]
    for result in results:
        for name, words in (("hvp", "H v"), ("gradient", "∇f"), ("value", "f")):
            times = result["times"][name]
            ours = times[result["chosen"][name]]
            peers = {"jax": times["jax"], **result["peers"]["times"].get(name, {})}
            cells = [_cell(ours, peers.get(peer)) for peer in _PEERS]
            seconds = [f"{result['compile'][side]['total']:.2f}" if name == "hvp" else "" for side in ("nabla", "jax")]
            title = result["title"] if name == "hvp" else ""
            lines.append(f"| {' | '.join([title, words, _micro(ours), *cells, *seconds])} |\n")
    return "".join(lines)


def _micro(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _cell(ours: float, theirs: float | None) -> str:
    """The time of a peer; in bold if it is less than that of nabla_mlir."""
    if theirs is None:
        return "-"
    return f"**{_micro(theirs)}**" if theirs < ours else _micro(theirs)


def main() -> None:
    """Writes the table between its marks in the page."""
    results, page = Path(sys.argv[1]), Path(sys.argv[2])
    text = page.read_text()
    marked = f"{_BEGIN}\n\n{table(json.loads(results.read_text())['results'])}\n{_END}"
    page.write_text(re.sub(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", lambda _: marked, text, flags=re.S))


if __name__ == "__main__":
    main()
