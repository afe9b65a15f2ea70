"""The corpus of programs with exact derivatives: every step of every program passes.

All of it runs on XLA in f64, a part in f32, and a few programs on IREE; the harness can run any part by hand:
python HARNESS --adapter tests/corpus_adapter.py:CorpusAdapter --only NAME.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(ROOT / "tests" / "corpus.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "corpus" / "harness.py"


@pytest.mark.parametrize(
    ("adapter", "arguments", "steps"),
    [
        ("corpus_xla.py", ["--dtypes=f64"], 2000),
        ("corpus_xla.py", ["--dtypes=f32", "--sample=30"], 120),
        ("corpus_adapter.py", ["--dtypes=f32", "--sample=8"], 20),
    ],
    ids=["f64", "f32", "iree"],
)
def test_every_step_passes(harness: Path, tmp_path: Path, adapter: str, arguments: list[str], steps: int) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, str(harness), f"--adapter={ROOT / 'tests' / adapter}:CorpusAdapter", "--jobs=2"]
    done = subprocess.run([*command, f"--out={out}", *arguments], cwd=tmp_path, capture_output=True, text=True)
    results = json.loads(out.read_text())["results"] if out.exists() else {}
    passed = [step["ok"] for case in results.values() for step in case.values()]
    assert all(passed), done.stdout[-6000:]
    assert len(passed) >= steps, done.stdout[-2000:] + done.stderr[-2000:]
