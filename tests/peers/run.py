"""Runs files of JAX's tests on nabla_mlir, and counts what passes: see README.md.

usage: run.py FOLDER [FILE_test.py ...] [--cases N] [--seconds T] [--seed S] [--x64] [--execution MODE] [--out counts.json]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import left_out

HERE = Path(__file__).parent


def run(
    folder: Path, name: str, cases: int = 2, seconds: int = 300, seed: int = 0, x64: bool = False, execution: str = "interpret"
) -> list[dict[str, Any]]:
    """The results of one file.

    Args:
      folder: the folder of JAX's tests.
      name: the name of the file.
      cases: the number of cases of each parametrized test.
      seconds: the time after which the file ends; what has not run then is not counted.
      seed: chooses the cases.
      x64: True runs in 64-bit mode.
      execution: "interpret", "auto" or "compile".
    """
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.jsonl"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_GENERATED_CASES": str(cases),
            "JAX_TEST_SEED": str(seed),
            "JAX_ENABLE_X64": "1" if x64 else "0",
            "PEERS_EXECUTION": execution,
            "PEERS_RESULTS": str(results),
        }
        options = ["-q", "-p", "as_jax", "-p", "no:cacheprovider", "--tb=no", "--timeout", "60", "--rootdir", str(folder)]
        command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, name]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, cwd=folder, env=environment, timeout=seconds, capture_output=True, check=False)
        return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def counts(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of tests that passed, failed and are left out, and the reasons of the latter."""
    reasons: collections.Counter[str] = collections.Counter()
    total = {"passed": 0, "failed": 0}
    for result in results:
        if result["status"] == "skipped":
            continue
        why = left_out.reason(result) if result["status"] == "failed" or result["real"] else None
        if why is None:
            total[result["status"]] += 1
        else:
            reasons[why] += 1
    return {**total, "left_out": sum(reasons.values()), "reasons": dict(reasons.most_common())}


def main() -> None:
    """Runs the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--cases", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--execution", default="interpret")
    parser.add_argument("--out", type=Path, default=HERE / "counts.json")
    parser.add_argument("--failures", type=Path, help="a file to which the failures that count are written")
    options = parser.parse_args()
    names = options.files or sorted(p.name for p in options.folder.glob("*_test.py") if p.name not in left_out.FILES)
    table = json.loads(options.out.read_text()) if options.out.exists() else {}
    failures = []
    for name in names:
        results = run(options.folder, name, options.cases, options.seconds, options.seed, options.x64, options.execution)
        mode = f"{64 if options.x64 else 32} bits, {options.execution}"
        table.setdefault(mode, {})[name.removesuffix("_test.py")] = {**counts(results), "cases": options.cases}
        failures += [r for r in results if r["status"] == "failed" and left_out.reason(r) is None]
        print(name, {k: v for k, v in counts(results).items() if k != "reasons"}, flush=True)
        options.out.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    if options.failures:
        options.failures.write_text("".join(json.dumps(f) + "\n" for f in failures))


if __name__ == "__main__":
    main()
