"""The packages and programs that some tests need beyond the extra `test`, by the family of .ci/packages that installs them."""

from __future__ import annotations

import ctypes.util
import importlib.util
import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent


class Family(NamedTuple):
    """Modules of Python, programs, and libraries; and the files of tests that are skipped, in whole or in part, without one of them."""

    files: tuple[str, ...]
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def absent(self) -> list[str]:
        """The names of those that this machine lacks."""
        lacks = [name for name in self.modules if importlib.util.find_spec(name) is None]
        lacks += [name for name in self.programs if shutil.which(name) is None]
        return lacks + [f"lib{name}" for name in self.libraries if ctypes.util.find_library(name) is None]


FAMILIES = {
    "vulkan": Family(("-m vulkan",), libraries=("vulkan",)),
    "torch": Family(
        (
            "frontend/test_torch.py",
            "interop/test_torch_function.py",
            "interop/test_torch_modules.py",
            "interop/test_curvlinops.py",
            "interop/test_laplace.py",
            "test_examples.py",
            "deploy/test_exit.py",
        ),
        ("torch", "torch_mlir", "curvlinops", "laplace"),
    ),
    "triton": Family(("-m gpu",), ("triton",), ("cc",)),
    "onnx": Family(
        ("interop/test_onnx.py", "interop/test_onnx_cases.py", "interop/test_onnx_learning.py", "test_examples.py"),
        ("onnx", "skl2onnx", "onnxscript"),
    ),
    "flax": Family(("interop/test_jax_models.py",), ("flax", "equinox", "optax", "diffrax")),
    "cutest": Family(("interop/test_problems.py",), ("sif2jax",)),
    "samplers": Family(
        ("interop/test_pytensor.py", "interop/test_samplers.py", "test_examples.py"),
        ("pymc", "pytensor", "cloudpickle", "nutpie", "emcee", "blackjax"),
    ),
    "keras": Family(("interop/test_keras.py",), ("keras", "numpyro", "safetensors")),
    "languages": Family(("deploy/test_languages.py", "deploy/test_static_library.py"), programs=("cc", "c++", "cmake", "rustc")),
    "ipopt": Family(("sparse/test_ipopt.py",), ("cyipopt",)),
    "algebra": Family(
        ("interop/test_linear_algebra.py", "interop/test_casadi.py"), ("primme", "pylops", "pyamg", "pymanopt", "casadi"), ("cc",)
    ),
    "mpi": Family(("frontend/test_distributed.py",), ("mpi4py",), ("mpiexec",)),
    "dask": Family(("frontend/test_distributed.py", "interop/test_stored_data.py"), ("distributed", "zarr", "pyarrow")),
    "plots": Family(
        ("interop/test_minimize.py", "tools/test_habits.py", "test_docs.py", "frontend/test_distributed.py"), ("matplotlib",)
    ),
    "browser": Family(("explorer/test_page.py", "test_site.py"), ("playwright", "axe_playwright_python"), ("chromium",)),
}


def header(selection: str = "") -> list[str]:
    """The lines that a run of all tests begins with: their number, their time, and the tests that are skipped on this machine.

    Args:
      selection: the expression of `-m` or `-k`; the time is that of all tests, so that it is left out here.
    """
    count = len(list(ROOT.rglob("test_*.py")))
    work = f"those of {selection!r}" if selection else "some 20,000 tests, 30 to 50 minutes on two cores"
    lines = [
        f"{count} files, {work}: they are read without output (20 s), then each dot is a test and [ 40%] the share that is done",
        "fewer: ARGS='-m smoke' (a minute), ARGS='tests/test_readme.py'",
    ]
    absent = {name: lacks for name, family in FAMILIES.items() if (lacks := family.absent())}
    if absent:
        lines.append("skipped for what this machine lacks; `make packages` installs all of it (10 minutes):")
        lines += [f"  {', '.join(FAMILIES[name].files)}: {', '.join(lacks)}" for name, lacks in absent.items()]
    return lines
