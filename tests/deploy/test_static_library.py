"""Static libraries: the same numbers from C as from Python, built by the C compiler of this machine."""

import ctypes
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import CompileError, TargetError
from nabla_mlir.compiling.internals.host_program import HostProgram
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.staging.static_library import save_static_library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
STRICT = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
rng = np.random.default_rng(0)
TABLE = rng.normal(size=(64, 64)).astype(np.float32)


def data_dependent_loop(x, n):
    """A loop whose number of steps an argument decides, over a table."""
    step = lambda s: (s[0] + 1, nnp.tanh(s[1] @ TABLE))  # noqa: E731
    return nm.while_loop(lambda s: (s[0] < n) & (nnp.abs(s[1]).max() < 2.0), step, (0, x))


def branches(which, x):
    return nm.switch(which, [lambda x: x + 1.0, lambda x: x * x.sum(), lambda x: nnp.sort(x)], x)


def kinds(x, z, i):
    return {"positive": x > 0, "conjugate": nnp.conj(z) * 2, "shifted": i << 3, "largest": x.argmax()}


def factored(a):
    """Kernels of our own code, several workgroups among them."""
    a = a @ a.T + 50 * nnp.eye(50)
    return nnp.linalg.solve(nnp.linalg.cholesky(a), a[:, :40])


def products(a, b):
    """Large enough for the kernel that packs its factors, and is given their sizes; the second is added in place."""
    return a @ b + (2 * b).T @ a.T


F32, F64 = nm.spec(64, "f32"), nm.spec((5, 5), "f64")
FUNCTIONS = {
    "loop": (data_dependent_loop, (F32, nm.spec((), "i32"))),
    "branches": (branches, (nm.spec((), "i32"), F32)),
    "kinds": (kinds, (F32, nm.spec(3, "complex64"), nm.spec(3, "int64"))),
    "gradient": (nm.grad(lambda a: nnp.linalg.slogdet(a @ a.T + nnp.eye(5))[1] + nnp.sin(a).sum()), (F64,)),
    "constant": (lambda: nnp.arange(5.0) * 2.0, ()),
    "same": (lambda x: (x, x + 1), (F32,)),
    "factored": (factored, (nm.spec((50, 50), "f64"),)),
    "products": (products, (nm.spec((320, 330), "f64"), nm.spec((330, 320), "f64"))),
}


def call(function, *arrays):
    return function(*(None if a is None else ctypes.c_void_p(a.ctypes.data) for a in arrays))


@pytest.fixture(scope="module")
def lowered():
    return nm.module(**{name: nm.trace(f, *specs) for name, (f, specs) in FUNCTIONS.items()}).lower()


@pytest.fixture(scope="module")
def folder(lowered, tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    assert save_static_library(lowered, folder / "model.h") == folder / "model.h"
    hvp = nm.hvp_module(lambda x: (x**4).sum(), nm.spec(4, "f64"), entry_points=("update", "apply"))
    save_static_library(hvp, folder / "hvp")
    return folder


@pytest.fixture(scope="module")
def library(folder):
    sources = [folder / f"{stem}{suffix}" for stem in ("model", "hvp") for suffix in (".c", ".o")]
    subprocess.run([*STRICT, "-shared", "-fPIC", "-o", folder / "all.so", *sources, "-lm"], check=True)
    return ctypes.CDLL(folder / "all.so")


ARGUMENTS = {
    "loop": [(rng.normal(size=64).astype(np.float32), np.array(n, np.int32)) for n in (0, 1, 7)],
    "branches": [(np.array(k, np.int32), rng.normal(size=64).astype(np.float32)) for k in (-1, 1, 2, 9)],
    "kinds": [(rng.normal(size=64).astype(np.float32), np.array([1j, 2, 3 - 1j], np.complex64), np.array([1, -2, 2**40]))],
    "gradient": [(rng.normal(size=(5, 5)),)],
    "constant": [()],
    "same": [(rng.normal(size=64).astype(np.float32),)],
    "factored": [(rng.normal(size=(50, 50)),)],
    "products": [(rng.normal(size=(320, 330)), rng.normal(size=(330, 320)))],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_of_python(library, lowered, name):
    entry = next(e for e in lowered.entries if e.name == name)
    for arguments in ARGUMENTS[name]:
        outs = [np.zeros(out.shape, out.dtype) for out in entry.outputs]
        assert call(getattr(library, f"model_{name}"), *arguments, *outs) == 0
        wanted = nm.jit(FUNCTIONS[name][0])(*arguments)
        leaves = [wanted[k] for k in sorted(wanted)] if isinstance(wanted, dict) else wanted
        for got, want in zip(outs, leaves if isinstance(leaves, (tuple, list)) else [leaves], strict=True):
            np.testing.assert_allclose(got, np.asarray(want), rtol=2e-5, atol=1e-6)


@pytest.mark.slow
def test_any_alignment_and_results_that_nobody_wants(library):
    x = rng.normal(size=64).astype(np.float32)
    for offset in range(0, 64, 12):
        room = np.zeros(512, np.uint8)
        x_there = room[offset : offset + 256].view(np.float32)
        x_there[:] = x
        out = np.zeros(64, np.float32)
        assert call(library.model_loop, x_there, np.array(0, np.int32), None, out) == 0
        assert out.tolist() == x.tolist()


@pytest.mark.slow
def test_state_belongs_to_the_program(library):
    x, v, hv, gradient, value = (np.arange(1, 5.0), np.ones(4), *np.zeros((2, 4)), np.zeros(()))
    assert call(library.hvp_apply, v, hv) == 2, "before the first update"
    for scale in (1.0, 2.0, 3.0):
        x[:] = scale * np.arange(1, 5)
        assert call(library.hvp_update, x, gradient, value) == 0
        point = x.copy()
        x[:] = -7.0  # the caller's array is not the state
        assert call(library.hvp_apply, v, hv) == 0
        np.testing.assert_allclose(hv, 12 * point**2)
        np.testing.assert_allclose(gradient, 4 * point**3)
        assert value == (point**4).sum()


@pytest.mark.slow
def test_sparse_hessians(tmp_path):
    """The values of a sparse Hessian, in the order of the constants that the header declares."""
    f = lambda x, w: ((x[1:] - x[:-1] ** 2) ** 2).sum() + (w * x[2:] * x[:-2]).sum()  # noqa: E731
    names = ("hessian", "update", "matrix")
    stage = nm.sparse_hessian_module(f, nm.spec(7, "f64"), nm.spec(5, "f64"), format="lower", entry_points=names)
    header = save_static_library(stage, tmp_path / "sparse").read_text()
    subprocess.run(
        [*STRICT, "-shared", "-fPIC", "-o", tmp_path / "all.so", tmp_path / "sparse.c", tmp_path / "sparse.o", "-lm"], check=True
    )
    library = ctypes.CDLL(tmp_path / "all.so")
    nnz = int(re.search(r"enum { sparse_hessian_nnz = (\d+) };", header)[1])
    assert "The matrix is 7x7; its entries in the order of lower" in header
    found = dict(re.findall(r"extern const int32_t sparse_hessian_(\w+)\[(\d+)\];", header))
    assert found == {"rows": str(nnz), "columns": str(nnz), "column_colors": "7", "positions": str(nnz)}
    rows, columns = (np.array((ctypes.c_int32 * nnz).in_dll(library, f"sparse_hessian_{n}")) for n in ("rows", "columns"))
    x, w, values, gradient, value, moved = (*rng.normal(size=(2, 7)), np.zeros(nnz), np.zeros(7), np.zeros(()), np.zeros(nnz))
    dense = np.asarray(nm.hessian(f)(x, w[:5]))
    assert call(library.sparse_hessian, x, w, values) == 0
    wanted = np.zeros((7, 7))
    wanted[rows, columns] = values
    np.testing.assert_allclose(wanted, np.tril(dense), rtol=1e-12, atol=1e-12)
    assert call(library.sparse_matrix, moved) == 2, "before the first update"
    assert call(library.sparse_update, x, w, gradient, value) == 0
    assert call(library.sparse_matrix, moved) == 0
    np.testing.assert_allclose(moved, values, rtol=1e-12, atol=1e-12)


def test_the_header_is_for_people_and_for_cplusplus(folder):
    text = (folder / "model.h").read_text()
    assert "loop(x: float32[64], n: int32[]) -> (*, *)" in text
    assert "A loop whose number of steps an argument decides, over a table." in text
    assert "uint8_t *result_positive" in text
    if shutil.which("c++"):
        subprocess.run(["c++", "-fsyntax-only", "-x", "c++", folder / "model.h"], check=True)


def test_the_example(tmp_path):
    from test_examples import EXAMPLES

    done = subprocess.run([sys.executable, EXAMPLES / "c" / "build.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("x[0] = 1.000000000\n")


def test_memory_is_given_back(folder):
    """Under the sanitizers: no access outside of a block, nothing lost, nothing undefined."""
    main = '#include "model.h"\nint main(void) { static float x[65]; int32_t n = 20; int status = 0;\n'
    main += "for (int i = 0; i < 5; ++i) status += model_loop(x + 1, &n, 0, x);\nreturn status; }"
    (folder / "main.c").write_text(main)
    command = [*STRICT, "-fsanitize=address,undefined", "main.c", "model.c", "model.o", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "main"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_errors(lowered, tmp_path):
    with pytest.raises(TargetError, match="requires a CPU as its target, got CUDA"):
        save_static_library(lowered, tmp_path / "x", nm.CUDA())
    with pytest.raises(TargetError, match="requires calls that return when they are done"):
        save_static_library(lowered, tmp_path / "x", nm.CPU(asynchronous=True))
    text = "module { util.func public @f(%x: f32) -> f32 { %0 = math.sqrt %x : f32\n util.return %0 : f32 } }"
    with pytest.raises(CompileError, match=r"a program of known operations, got math\.sqrt"), context():
        HostProgram(parse_module(text))
    text = "module { util.global private mutable @g : f16 }"
    with pytest.raises(CompileError, match="requires values of known types, got f16 in global_g"), context():
        HostProgram(parse_module(text))
