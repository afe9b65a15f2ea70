"""nabla-mlir doctor: installed packages, available devices, and a self test."""

from __future__ import annotations

import json
import platform
import time
from importlib import metadata

from nabla_mlir.base.errors import NablaError
from nabla_mlir.compiling import cache
from nabla_mlir.targets import available
from nabla_mlir.tools.terminal import print_table

PACKAGES = ("nabla-mlir", "nabla-mlir-runtime", "iree-base-compiler", "iree-base-runtime", "numpy", "optree", "ml_dtypes", "rich")

_SKIPPED = "skipped (runtime alone)"


def run(as_json: bool = False) -> int:
    """Prints the tables, or JSON; returns 0 if the self test and the check of compiled code pass."""
    versions = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    versions |= {name: _version(name) for name in PACKAGES}
    targets = [{"target": a.name, "runs": a.runs, "detail": a.detail} for a in available()]
    files, size = _cache_content()
    start = time.perf_counter()
    result = self_test()
    seconds = time.perf_counter() - start
    setting, check = checking()
    is_well = (result == "passed" and check.startswith("checked")) or result == check == _SKIPPED
    if as_json:
        storage = {"folder": str(cache.cache_dir()), "files": files, "bytes": size, "limit": cache.cache_size()}
        content = {"versions": versions, "targets": targets, "cache": storage, "self_test": {"result": result, "seconds": seconds}}
        content["checking"] = {"setting": setting, "tiny_program": check}
        print(json.dumps(content, indent=1))
        return int(not is_well)
    print_table("Versions", ["package", "version"], [[name, version] for name, version in versions.items()])
    rows = [[a.name, "yes" if a.runs else "no", a.detail] for a in available()]
    print_table("Targets", ["target", "runs here", "device, or why not"], rows)
    print_table(
        "Cache",
        ["folder", "files", "MB", "limit MB"],
        [[str(cache.cache_dir()), str(files), f"{size / 1e6:.1f}", f"{cache.cache_size() / 1e6:.0f}"]],
    )
    print_table("Checks of compiled code", ["setting", "a tiny program"], [[setting, check]])
    print_table("Self test", ["what", "seconds", "result"], [["gradient of sum(x^3) on the CPU", f"{seconds:.2f}", result]])
    return int(not is_well)


def self_test() -> str:
    """Traces, differentiates, compiles and runs a small function; returns "passed", or the error."""
    try:
        import numpy as np

        import nabla_mlir as nm

        traced = nm.trace(nm.grad(lambda x: (x * x * x).sum()), nm.spec(3, "f32"))
        got = traced.lower().compile("cpu", cache=False)(np.array([1, 2, 3], np.float32)).tolist()
    except ImportError as error:
        return _without_compiler(error)
    except NablaError as error:
        return f"{type(error).__name__}: {error.message}"
    return "passed" if got == [3.0, 12.0, 27.0] else f"wrong numbers: {got}"


def checking() -> tuple[str, str]:
    """The mode of checked compilation, and the outcome of the check of a tiny program, as text."""
    try:
        import nabla_mlir as nm
        from nabla_mlir.compiling.checking import Checking

        stage = nm.trace(lambda x: nm.numpy.sin(x) * x, nm.spec(64), name="tiny").lower()
        return Checking.mode, str(stage.compile(nm.CPU(checking="always"), cache=False).checks["tiny"])
    except ImportError as error:
        return "", _without_compiler(error)
    except NablaError as error:
        return "", f"{type(error).__name__}: {error.message}"


def _without_compiler(error: ImportError) -> str:
    """The outcome of what needs a module that `error` misses: skipped if only the runtime is installed, else not possible."""
    is_runtime_alone = _version("nabla-mlir") == "not installed" and _version("iree-base-compiler") == "not installed"
    return _SKIPPED if is_runtime_alone else f"not possible: {error}"


def _version(package: str) -> str:
    """The version of an installed package, or "not installed"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cache_content() -> tuple[int, int]:
    sizes = [path.stat().st_size for path in cache.cache_dir().rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)
