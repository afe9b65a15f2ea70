"""The README does what it says: each of its code blocks runs, and the IR it shows is what the code prints."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.M | re.S)
RECORD = re.compile(r"^\w+(: OpDef)? = elementwise\(")


def environment():
    return os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def test_every_block_is_of_a_kind_that_is_run():
    assert {kind for kind, _ in BLOCKS} == {"python", "sh", "mlir", "text"}


def test_blocks_in_order(tmp_path, monkeypatch):
    """Python blocks run in one namespace; an mlir or text block after one is what it printed; sh blocks use the files."""
    monkeypatch.chdir(tmp_path)
    names, printed = {}, ""
    for kind, code in BLOCKS:
        if kind == "python" and not RECORD.match(code):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(code, str(README), "exec"), names)
            printed = out.getvalue().strip()
        elif kind in ("mlir", "text") and "// RUN:" not in code:
            assert code.strip() == printed
        elif kind == "sh" and not code.startswith("make "):
            result = subprocess.run(code, shell=True, check=True, capture_output=True, text=True, env=environment())
            assert "4xf32=" in result.stdout


def test_make_targets_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for _, code in (block for block in BLOCKS if block[1].startswith("make ")):
        for name in re.findall(r"^make (\w+)", code, re.M):
            assert name in targets


def test_the_record_is_the_one_in_the_table():
    records = [code for kind, code in BLOCKS if kind == "python" and RECORD.match(code)]
    assert records
    assert all(code in (ROOT / "nabla_mlir" / "ops" / "elementwise.py").read_text() for code in records)


def test_the_test_of_a_pass(tmp_path):
    (code,) = (code for kind, code in BLOCKS if "// RUN:" in code)
    file = tmp_path / "test.mlir"
    file.write_text(code)
    command = re.search(r"// RUN: (.*)", code)[1].replace("%s", shlex.quote(str(file)))
    command = command.replace("nabla-opt", f"{sys.executable} -m nabla_mlir.tools.opt")
    subprocess.run(f"set -o pipefail; {command}", shell=True, check=True, env=environment(), executable="/bin/bash")


def test_links_lead_somewhere():
    for link in re.findall(r"\]\((?!http)([^)#]+)", README.read_text()):
        assert (ROOT / link).exists(), link
