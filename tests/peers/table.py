"""Writes the table of JAX's tests in docs/frameworks.md from counts.json. usage: table.py"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "frameworks.md"
BEGIN, END = "<!-- peers: written by tests/peers/table.py -->", "<!-- end of peers -->"


def table(counts: dict[str, Any]) -> str:
    """The table as Markdown: a row for each file and mode, and the sum."""
    rows = ["| JAX's file | mode | cases a test | passed | failed | left out |", "|---|---|---|---|---|---|"]
    total = dict.fromkeys(("passed", "failed", "left_out"), 0)
    for mode, files in sorted(counts.items()):
        for name, found in sorted(files.items()):
            numbers = [found[key] for key in total]
            total = {key: total[key] + found[key] for key in total}
            rows.append(f"| {name} | {mode} | {found['cases']} | {' | '.join(map(str, numbers))} |")
    rows.append(f"| all | | | {' | '.join(map(str, total.values()))} |")
    return "\n".join(rows)


def written(page: str, counts: dict[str, Any]) -> str:
    """The page with the table of these counts."""
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n{table(counts)}\n\n{END}", page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), json.loads((HERE / "counts.json").read_text())))
