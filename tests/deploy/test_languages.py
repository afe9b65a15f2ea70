"""The static library in C99, C++, CMake, Rust and Julia: each program compares a product with differences of gradients."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm

SOURCES = Path(__file__).resolve().parents[2] / "examples" / "c"
LANGUAGE = {"double": "Cdouble", "float": "Cfloat", "int32_t": "Int32"}
RUSTC = shutil.which("rustc") or shutil.which("rustc", path=str(Path.home() / ".cargo" / "bin"))

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def run(command: Sequence[Any], folder: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    stage = nm.hvp_module(rosenbrock, nm.spec(100, "f64"), entry_points=("update", "apply"))
    nm.save_static_library(stage, folder / "rosenbrock")
    return folder


@pytest.fixture(scope="module")
def largest() -> float:
    """The largest difference between the printed product and central differences by NumPy."""
    i = np.arange(100)
    return float(np.abs(nm.hvp(rosenbrock)(np.sin(i), np.cos(i)).numpy()).max())


def check(text: str, largest: float) -> None:
    value, error = map(float, re.search(r"up to (\S+), relative error (\S+)", text).groups())  # type: ignore[union-attr]
    assert value == pytest.approx(largest, rel=1e-6)
    assert error < 1e-6


@pytest.mark.parametrize("standard", ["c99", "c11", "c17"])
def test_strict_c(folder: Path, standard: str) -> None:
    run(["cc", f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "rosenbrock.c", "-o", "strict.o"], folder)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_cplusplus_keywords_are_no_names(tmp_path: Path) -> None:
    f = nm.trace(lambda operator, namespace: operator * namespace["typename"], nm.spec(2), {"typename": nm.spec(2)}, name="f")
    header = nm.save_static_library(f.lower(), tmp_path / "words")
    assert "const float *operator_, const float *namespace_typename" in header.read_text()
    for standard in ("c++11", "c++17", "c++20"):
        run(["c++", f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-x", "c++", header], tmp_path)


@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("c++") is None, reason="no CMake")
@pytest.mark.parametrize("how", ["prefix", "folder"])
def test_cmake_and_cplusplus(folder: Path, tmp_path: Path, largest: float, how: str) -> None:
    where = {"prefix": f"-DCMAKE_PREFIX_PATH={folder}", "folder": f"-Drosenbrock_DIR={folder}"}[how]
    run(["cmake", "-S", SOURCES, "-B", tmp_path, where], tmp_path)
    run(["cmake", "--build", tmp_path], tmp_path)
    check(run([tmp_path / "product"], tmp_path), largest)
    assert run([tmp_path / "newton"], tmp_path).endswith("x[0] = 1.000000000\n")


@pytest.mark.skipif(RUSTC is None, reason="no Rust compiler")
def test_rust(folder: Path, largest: float) -> None:
    run(["cc", "-O2", "-c", "rosenbrock.c", "-o", "calls.o"], folder)
    run(["ar", "rcs", "librosenbrock.a", "calls.o", "rosenbrock.o"], folder)
    run([RUSTC, "--edition", "2021", "-D", "warnings", "-L", folder, SOURCES / "product.rs", "-o", "rust"], folder)
    check(run([folder / "rust"], folder), largest)


def test_julia(folder: Path, largest: float) -> None:
    """Where there is no Julia its text is held against the header: the names, and the kind of each argument."""
    run(["cc", "-O2", "-shared", "-fPIC", "rosenbrock.c", "rosenbrock.o", "-lm", "-o", "librosenbrock.so"], folder)
    text, header = (SOURCES / "product.jl").read_text(), (folder / "rosenbrock.h").read_text()
    calls = re.findall(r"ccall\(\(:(\w+), library\), Cint, \((.*?)\), ", text)
    assert [name for name, _ in calls] == ["rosenbrock_update", "rosenbrock_apply"]
    for name, kinds in calls:
        declared = re.search(rf"^int {name}\((.*)\);", header, re.M)[1].split(", ")  # type: ignore[index]
        assert kinds == ", ".join(f"Ptr{{{LANGUAGE[p.removeprefix('const ').split(' *')[0]]}}}" for p in declared)
    if shutil.which("julia"):
        check(run(["julia", SOURCES / "product.jl", "librosenbrock.so"], folder), largest)
