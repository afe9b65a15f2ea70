"""The corpus of programs with exact derivatives: every step of every program passes.

All of it is interpreted in f64, a part in f32, and a few programs on IREE, as they are for each target (where there is no
GPU, CUDA is compiled for); the harness can run any part by hand:
python HARNESS --adapter tests/corpus_adapter.py:CorpusAdapter --only NAME
python HARNESS --adapter tests/corpus_targets.py:VulkanAdapter --steps primal --dtypes f32
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from vulkan import need_vulkan

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
# Of each of these the compiler refused, or crashed on, a part.
ON_VULKAN = "trisolve_trans,linlax_expm,red_median_odd,sci_coulomb,cnv_2d_batch_groups"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(ROOT / "tests" / "corpus.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "corpus" / "harness.py"


@pytest.mark.parametrize(
    ("adapter", "arguments", "steps"),
    [
        ("corpus_interpreted.py:CorpusAdapter", ["--dtypes=f64"], 2000),
        ("corpus_interpreted.py:CorpusAdapter", ["--dtypes=f32", "--sample=30"], 120),
        ("corpus_adapter.py:CorpusAdapter", ["--dtypes=f32", "--sample=8"], 20),
        ("corpus_prepared.py:CorpusAdapter", ["--steps=hvp", "--dtypes=f64", "--sample=30"], 25),
        ("corpus_targets.py:CAdapter", ["--steps=primal", "--dtypes=f64", "--sample=6"], 4),
        ("corpus_targets.py:CUDAAdapter", ["--steps=primal", "--dtypes=f32", "--sample=6"], 4),
        pytest.param(
            "corpus_targets.py:VulkanAdapter",
            [f"--only={ON_VULKAN}", "--steps=primal", "--dtypes=f32"],
            6,
            marks=pytest.mark.vulkan,
        ),
    ],
    ids=["f64", "f32", "iree", "prepared", "c", "cuda", "vulkan"],
)
def test_every_step_passes(harness: Path, tmp_path: Path, adapter: str, arguments: list[str], steps: int) -> None:
    if "Vulkan" in adapter:
        need_vulkan()
    out = tmp_path / "results.json"
    command = [sys.executable, str(harness), f"--adapter={ROOT / 'tests' / adapter}", "--jobs=2"]
    done = subprocess.run([*command, f"--out={out}", *arguments], cwd=tmp_path, capture_output=True, text=True)
    results = json.loads(out.read_text())["results"] if out.exists() else {}
    passed = [step["ok"] for case in results.values() for step in case.values()]
    assert all(passed), done.stdout[-6000:]
    assert len(passed) >= steps, done.stdout[-2000:] + done.stderr[-2000:]
