"""Kernels compiled beside the rest of a module: the same numbers as with it, and the whole module where that is refused."""

from __future__ import annotations

import io
import logging
import zipfile

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.compiling import compiler
from nabla_mlir.compiling.internals.archive import sealed, with_file
from nabla_mlir.compiling.internals.executables import inside, name_of
from nabla_mlir.compiling.internals.kernel_library import take_kernels
from nabla_mlir.compiling.internals.libraries import divide
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.runtime.executable import Executable
from nabla_mlir.runtime.profile import dispatches_of
from nabla_mlir.targets import CPU
from nabla_mlir.targets.toolchain import run_compiler

SIZE = 130
STUBBED = "--compile-mode=hal-executable"  # with which the kernels are compiled


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of the compiler, in a process where every kernel is compiled separately."""
    seen: list[list[str]] = []

    def run(arguments, stdin, **options):
        seen.append(arguments)
        return run_compiler(arguments, stdin, **options)

    monkeypatch.setattr(thresholds, "SEPARATE_KERNELS", 1)
    monkeypatch.setattr(compiler, "run_compiler", run)
    return seen


@pytest.fixture(scope="module")
def network() -> nm.Lowered:
    """Sums and a factorization that our kernels compute, and a loop beside them."""

    def f(w, x):
        x = nm.fori_loop(0, 2, lambda _, x: nnp.sin(x), nnp.tanh(x @ w))
        return nnp.linalg.cholesky(x.T @ x + SIZE * nnp.eye(SIZE)) - nnp.mean(x, axis=0), nnp.sum(x * x, axis=1)

    return nm.trace(f, *[nm.spec((SIZE, SIZE))] * 2, name="f").lower()


@pytest.fixture(scope="module")
def whole(network: nm.Lowered) -> nm.Compiled:
    """Compiled with its kernels."""
    assert thresholds.SEPARATE_KERNELS > 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SEPARATE_KERNELS", 10**9)
        return network.compile(CPU(), cache=False)


def arguments() -> list[np.ndarray]:
    return [np.random.default_rng(seed).normal(size=(SIZE, SIZE)).astype(np.float32) / 10 for seed in range(2)]


def calls(compiled: nm.Compiled) -> list[bytes]:
    """The results of two calls."""
    return [np.asarray(result).tobytes() for _ in range(2) for result in compiled(*arguments())]


@pytest.mark.slow
def test_kernels_apart_compute_the_same(runs: list[list[str]], network: nm.Lowered, whole: nm.Compiled) -> None:
    apart = network.compile(CPU(), cache=False)
    assert sum(STUBBED in run for run in runs) == 1
    assert all("--compile-to" in " ".join(run) or "--compile-from" in " ".join(run) for run in runs if STUBBED not in run)
    assert apart.vmfb.count(b"\x7fELF") == 2
    assert calls(apart) == calls(whole)
    kernels = [{(d.name, d.count) for d in dispatches_of(each.vmfb, each.loaded.entry_points["f"])} for each in (apart, whole)]
    assert kernels[0] == kernels[1]


def test_the_artifact_is_the_same_each_time_and_from_the_cache(runs, network: nm.Lowered, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    compiler.clear_memory()
    first = network.compile(CPU())
    count = len(runs)
    compiler.clear_memory()
    again = network.compile(CPU())
    assert len(runs) == count
    assert again.vmfb == first.vmfb
    assert calls(again) == calls(first)


@pytest.mark.slow
@pytest.mark.parametrize("refused", [STUBBED, "--iree-hal-link-executables=false"])
def test_what_is_refused_apart_is_compiled_whole(
    refused: str, runs, network: nm.Lowered, whole: nm.Compiled, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, done = compiler.run_compiler, []

    def refusing(arguments, stdin, **options):
        if refused in arguments:
            done.append(arguments)
            return compiler.Finished(1, b"", "error: refused")
        return run(arguments, stdin, **options)

    monkeypatch.setattr(compiler, "run_compiler", refusing)
    with caplog.at_level(logging.WARNING, "nabla_mlir.compile"):
        compiled = network.compile(CPU(), cache=False)
    assert done
    assert "without a separate library of kernels" in caplog.text
    assert calls(compiled) == calls(whole)


def test_stubs_have_the_names_of_the_kernels_and_do_nothing(runs, network: nm.Lowered) -> None:
    legal = legalize(network.module, CPU())
    before = [op.operation for op in legal.body.operations if op.operation.name == "hal.executable.source"]
    kernels = {name_of(op) for op in before}
    assert len(kernels) > 1
    library = take_kernels(legal)
    assert library is not None
    assert set(library.names) == kernels
    with context():
        assert legal.operation.verify()
        module = parse_module(library.text)
        assert module.operation.verify()
    (stubs,) = [op.operation for op in legal.body.operations if op.operation.name == "hal.executable.source"]
    *exports, code, _ = inside(stubs)
    assert tuple(map(name_of, exports)) == library.names
    assert all(len(inside(function)) == 1 for function in inside(code))
    (real,) = [op.operation for op in module.body.operations]
    assert all(len(inside(function)) > 1 for function in inside(inside(real)[-2]))


def test_few_operations_stay_where_they_are(network: nm.Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    legal = legalize(network.module, CPU())
    before = str(legal)
    monkeypatch.setattr(thresholds, "SEPARATE_KERNELS", 10**9)
    assert take_kernels(legal) is None
    assert str(legal) == before


def test_stubs_that_the_compiler_has_changed_are_refused(runs, network: nm.Lowered) -> None:
    legal = legalize(network.module, CPU())
    library = take_kernels(legal)
    assert library is not None
    made = run_compiler([*CPU().flags(), "--compile-to=executable-sources", "-", "-o", "-"], str(legal).encode())
    assert made.returncode == 0, made.stderr
    module = parse_module(made.stdout)
    with context():
        variant = next(
            inside(op.operation)[0]
            for op in module.body.operations
            if op.operation.name == "hal.executable" and name_of(op.operation) == library.name
        )
        inside(variant)[0].erase()
        with pytest.raises(ValueError, match=library.names[0]):
            divide(module, library)


@pytest.mark.parametrize("size", [-4000, -1, 0, 1, 63, 64, 5000])
def test_a_file_of_an_artifact_in_the_place_of_another(size: int, runs, network: nm.Lowered) -> None:
    artifact = network.compile(CPU()).vmfb
    before = zipfile.ZipFile(io.BytesIO(artifact))
    program, *libraries = before.namelist()
    assert len(libraries) > 1
    for name in libraries:
        content = before.read(name)
        content = content[:size] if size < 0 else content + bytes(size)
        changed = with_file(artifact, name, content)
        after = zipfile.ZipFile(io.BytesIO(changed))
        assert after.testzip() is None
        assert after.namelist() == before.namelist()
        assert after.read(name) == content
        assert all(after.read(other) == before.read(other) for other in libraries if other != name)
        assert (after.read(program) == before.read(program)) == (size == 0)
        assert sealed(changed) == changed
        if size > 0:  # behind an ELF file's end nothing is read
            assert "f" in Executable.load(changed, "local-sync").functions


@pytest.mark.parametrize("name", ["nothing", ""])
def test_a_file_that_is_not_the_only_one_is_an_error(name: str, network: nm.Lowered) -> None:
    with pytest.raises(ValueError, match=r"without the one file .*module\.fb"):
        with_file(network.compile(CPU()).vmfb, name, b"")


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_what_is_no_archive_is_an_error(size: int, network: nm.Lowered) -> None:
    with pytest.raises(ValueError, match="another form"):
        with_file(network.compile(CPU()).vmfb[:size], "nothing", b"")


@pytest.mark.slow
def test_an_artifact_of_another_form_is_compiled_whole(runs, network: nm.Lowered, whole: nm.Compiled) -> None:
    plain = network.compile(CPU(), flags=["--iree-vm-emit-polyglot-zip=false"], cache=False)
    assert sum(STUBBED in run for run in runs) == 1
    assert not zipfile.is_zipfile(io.BytesIO(plain.vmfb))
    assert calls(plain) == calls(whole)
