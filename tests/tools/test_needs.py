"""A run of all tests says first which of them this machine skips; `make packages` installs what each of them needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import needs
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {p.relative_to(ROOT / "tests").as_posix(): p.read_text() for p in (ROOT / "tests").rglob("*.py")}
INSTALLER = (ROOT / ".ci" / "packages").read_text()
PROVIDED = {
    "curvlinops": "curvlinops-for-pytorch",
    "laplace": "laplace-torch",
    "torch_mlir": "torch-mlir",
    "pytensor": "pymc",
    "cloudpickle": "pymc",
    "distributed": "dask[distributed]",
    "axe_playwright_python": "axe-playwright-python",
}


def test_each_module_that_a_test_asks_for_is_installed_by_one_of_the_commands() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["test"]
    known = {re.split("[<>=]", line)[0] for line in extra} | {name for f in needs.FAMILIES.values() for name in f.modules}
    asked = {
        (path, name.partition(".")[0])
        for path, text in FILES.items()
        for name in re.findall(r"(?:importorskip|\bfind_spec)\(\"([\w.]+)\"", text)
    }
    assert len(asked) > 40
    assert not {(path, name) for path, name in asked if name not in known}


@pytest.mark.parametrize("name", needs.FAMILIES)
def test_families(name: str) -> None:
    family = needs.FAMILIES[name]
    body = re.search(rf"^{name}\(\) \{{(.*?)\}}(?: >/dev/null)?$", INSTALLER, re.M | re.S)
    assert body, f".ci/packages has no {name}"
    for module in family.modules:
        assert PROVIDED.get(module, module) in body[1]
    for path in family.files:
        marker = path.removeprefix("-m ")
        text = FILES[path] if marker == path else (ROOT / "pyproject.toml").read_text()
        words = [*family.modules, *family.programs, name] if marker == path else [f'"{marker}: ']
        assert any(word in text for word in words), f"{path} needs nothing of {name}"


def test_the_installer_refuses_other_names() -> None:
    done = subprocess.run(["bash", ".ci/packages", "nope"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "bash .ci/packages requires one of: vulkan torch" in done.stderr
    assert re.search(r"^FAMILIES='(.*)'$", INSTALLER, re.M)[1].split() == list(needs.FAMILIES)  # type: ignore[index]


def test_the_header_says_how_many_tests_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        needs.FAMILIES, "triton", needs.Family(("-m gpu",), ("no_such_module",), ("no-such-program",), ("nosuchlib",))
    )
    lines = needs.header()
    assert re.match(r"\d+ files, some 20,000 tests", lines[0])
    assert "  -m gpu: no_such_module, no-such-program, libnosuchlib" in lines
    assert any("`make packages`" in line for line in lines)
    assert "those of 'slow'" in needs.header("slow")[0]
    monkeypatch.setattr(needs, "FAMILIES", {})
    assert not any("make packages" in line for line in needs.header())


@pytest.mark.parametrize("arguments", [["-m", "smoke", "--ignore-glob=*"], ["tests/tools/test_needs.py", "-k", "smoke"]])
def test_a_run_of_all_tests_has_the_header(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ("files, those of 'smoke'" in done.stdout) == ("--ignore-glob=*" in arguments), done.stdout
