"""nabla-mlir doctor: what is installed, what this machine can run, and whether it works."""

from __future__ import annotations

import platform
import time
from importlib import metadata

from nabla_mlir.compiling import cache
from nabla_mlir.errors import NablaError
from nabla_mlir.targets import available
from nabla_mlir.tools.terminal import print_table

PACKAGES = ("nabla-mlir", "nabla-mlir-runtime", "iree-base-compiler", "iree-base-runtime", "numpy", "optree", "ml_dtypes", "rich")


def run() -> int:
    """Prints the tables; returns 0 if the self test passes."""
    rows = [["python", platform.python_version()], ["system", f"{platform.system()} {platform.machine()}"]]
    print_table("Versions", ["package", "version"], rows + [[name, _version(name)] for name in PACKAGES])
    targets = [[a.name, "yes" if a.runs else "no", a.detail] for a in available()]
    print_table("Targets", ["target", "runs here", "device, or why not"], targets)
    files, size = _cache_content()
    print_table(
        "Cache",
        ["folder", "files", "MB", "limit MB"],
        [[str(cache.cache_dir()), str(files), f"{size / 1e6:.1f}", f"{cache.cache_size() / 1e6:.0f}"]],
    )
    start = time.perf_counter()
    result = self_test()
    seconds = f"{time.perf_counter() - start:.2f}"
    print_table("Self test", ["what", "seconds", "result"], [["gradient of sum(x^3) on the CPU", seconds, result]])
    return int(result != "passed")


def self_test() -> str:
    """Traces, differentiates, compiles and runs a small function: "passed", or what went wrong."""
    try:
        import numpy as np

        import nabla_mlir as nm

        traced = nm.trace(nm.grad(lambda x: (x * x * x).sum()), nm.spec(3, "f32"))
        got = traced.lower().compile("cpu", cache=False)(np.array([1, 2, 3], np.float32)).tolist()
    except ImportError as error:
        return f"not possible: {error}"
    except NablaError as error:
        return f"{type(error).__name__}: {error.message}"
    return "passed" if got == [3.0, 12.0, 27.0] else f"wrong numbers: {got}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cache_content() -> tuple[int, int]:
    sizes = [path.stat().st_size for path in cache.cache_dir().rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)
