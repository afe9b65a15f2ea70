"""Compares Hessian-vector products of the large set on an NVIDIA GPU with jax.jit.

usage: python bench/gpu.py build FOLDER [--arch sm_90a] [--only NAME ...], on any machine; then, on the machine with the GPU,
       python bench/gpu.py run FOLDER [--only NAME ...] [--out FOLDER]
`run` does not need the compiler, only the IREE runtime, optree, rich and JAX. Each side has a separate process; they are built in
parallel and timed alternately. JAX multiplies f32 as f32 (precision "highest"), like nabla_mlir, and its results are the
reference. If PyTorch is installed, its profiler lists the kernels of nabla_mlir. Writes gpu.json.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from frameworks import jax_functions, nabla, nabla_functions
from measuring import HERE, KNOWN, console, direction, flat, relative_error
from rich.table import Table
from side import serve
from workloads_large import LARGE

SIDES = 8  # the number of sides that are built at once
BUILD, ANSWER = 150, 40  # time limits in seconds for building a side and for an answer


def main() -> int:
    """Builds the artifacts, measures them, or serves as one side of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("build", "run", "nabla", "jax"), help="nabla and jax are sides of a run")
    parser.add_argument("folder", type=Path, help="of the artifacts")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(KNOWN), default=[w.name for w in LARGE])
    parser.add_argument("--arch", default="sm_90a", help="the GPU to compile for")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder for the results")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "build":
        return build(options.folder, options.only, options.arch)
    if options.what == "run":
        options.out.mkdir(parents=True, exist_ok=True)
        return run(options.folder, options.only, options.out / "gpu.json")
    side = Ours if options.what == "nabla" else Jax
    serve(lambda: side(options.folder, options.only[0]))
    return 0


def arguments_of(name: str) -> tuple[Any, ...]:
    """The arguments of the product: the point, the vector, and the others."""
    x, *rest = KNOWN[name].inputs()
    return x, direction(x), *rest


def build(folder: Path, names: list[str], arch: str) -> int:
    """Compiles the products; returns 1 if the compiler refuses one."""
    import nabla_mlir as nm

    refused = 0
    for name in names:
        function = nabla_functions(KNOWN[name], KNOWN[name].function(nabla()))["hvp"]
        start = time.perf_counter()
        try:
            compiled = nm.trace(function, *arguments_of(name), name="hvp").lower().compile(nm.CUDA(arch), cache=False)
        except nm.NablaError as error:
            refused = 1
            console.print(f"{name}: [red]{error.message.splitlines()[0]}[/red]")
            continue
        size = compiled.save(folder / f"{name}.vmfb").stat().st_size
        console.print(f"{name}: {time.perf_counter() - start:.1f} s, {size / 1e6:.2f} MB")
    return refused


# ---------------------------------------------------------------- a side


class Jax:
    """The side of JAX."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name

    def build(self) -> dict[str, float]:
        """Compiles the product, and saves its results."""
        import jax

        arguments = arguments_of(self.name)
        jax.config.update("jax_enable_x64", any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(arguments)))
        jax.config.update("jax_default_matmul_precision", "highest")
        on_device = jax.tree.map(jax.device_put, arguments)
        start = time.perf_counter()
        compiled = jax.jit(jax_functions(KNOWN[self.name])["hvp"]).lower(*on_device).compile()
        seconds = time.perf_counter() - start
        self.call: Callable[[], Any] = lambda: jax.block_until_ready(compiled(*on_device))
        np.save(_numbers(self.folder, self.name), flat(self.call()))
        return {"compile": seconds, "memory": compiled.memory_analysis().temp_size_in_bytes}

    def time(self, calls: int) -> float:
        """The least seconds of a call."""
        return _least(self.call, calls)


class Ours:
    """The side of nabla_mlir, which loads the product from its artifact."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name

    def build(self) -> dict[str, float]:
        """Loads the artifact, copies its arguments to the GPU, and calls it once."""
        from nabla_mlir import runtime
        from nabla_mlir.base import pytree

        start = time.perf_counter()
        module = runtime.load(self.folder / f"{self.name}.vmfb", "cuda")
        seconds = time.perf_counter() - start
        self.given, tree = pytree.flatten(arguments_of(self.name))
        self.arrays = [runtime.Array.from_numpy(leaf, module.executable.device) for leaf in self.given]
        arguments = tree.unflatten(self.arrays)
        self.call: Callable[[], Any] = lambda: module["hvp"](*arguments)
        before = _used()
        self.first = flat(self.call())
        return {"load": seconds, "memory": _used() - before}

    def time(self, calls: int) -> float:
        """The least seconds of a call."""
        return _least(self.call, calls)

    def check(self) -> dict[str, Any]:
        """The error against JAX; also checks a second call, a call in another thread, and unchanged arguments."""
        numbers: list[np.ndarray] = []
        thread = threading.Thread(target=lambda: numbers.append(flat(self.call())))
        thread.start()
        thread.join()
        is_same = all(np.array_equal(x, self.first) for x in (flat(self.call()), *numbers)) and len(numbers) == 1
        is_kept = all(np.array_equal(np.asarray(x), leaf) for x, leaf in zip(self.arrays, self.given, strict=True))
        path = _numbers(self.folder, self.name)
        difference = relative_error(self.first, np.load(path)) if path.exists() else float("nan")
        return {"difference": difference, "is_same": is_same, "is_kept": is_kept}

    def growth(self, calls: int) -> float:
        """The growth of used memory for each call in bytes, with two live results."""
        live = [self.call(), self.call(), self.call()]
        before = _used()
        for _ in range(calls):
            live = [*live[-1:], self.call()]
        return (_used() - before) / calls

    def kernels(self, most: int) -> list[list[Any]]:
        """The slowest kernels of a call: name, grid, block, number of launches, microseconds."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            self.call()
            torch.cuda.synchronize()
        path = self.folder / f"{self.name}.trace.json"
        profiled.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat", "") in _KINDS]
        total: dict[tuple[str, str, str], list[float]] = {}
        for e in events:
            key = e["name"], *(str(e["args"].get(name, "")) for name in ("grid", "block"))
            count = total.setdefault(key, [0, 0.0])
            count[0], count[1] = count[0] + 1, count[1] + e["dur"]
        return sorted(([*key, *count] for key, count in total.items()), key=lambda row: -row[-1])[:most]


_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def _numbers(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _least(call: Callable[[], Any], calls: int) -> float:
    call()
    best = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
        del result
    return best


def _used() -> int:
    """The used bytes of the GPU memory, of all processes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


# ---------------------------------------------------------------- a run


class Process:
    """A side in a separate process."""

    def __init__(self, kind: str, folder: Path, name: str):
        environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        command = [sys.executable, __file__, kind, str(folder), "--only", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, *request: Any, seconds: float = ANSWER) -> Any:
        """The answer to a request, or a dictionary with the "error"."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": f"the process ended with {self.process.wait()}"}
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
            return {"error": f"no answer in {seconds:g} s"}
        found = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        return found.get("answer", found)


def run(folder: Path, names: list[str], path: Path) -> int:
    """Measures the products with artifacts, prints and saves the results; returns 1 if a result is wrong."""
    names = [name for name in names if (folder / f"{name}.vmfb").exists()]
    sides = {(name, kind): Process(kind, folder, name) for name in names for kind in ("jax", "nabla")}
    with ThreadPoolExecutor(SIDES) as pool:
        built = dict(zip(sides, pool.map(lambda side: side.ask("build", seconds=BUILD), sides.values()), strict=True))
    results = {}
    for name in names:
        results[name] = measure(sides[name, "nabla"], sides[name, "jax"], {kind: built[name, kind] for kind in ("nabla", "jax")})
        path.write_text(json.dumps(results, indent=1) + "\n")  # the results so far are saved, even if the run ends early
    for side in sides.values():
        side.process.kill()
    table = Table("", "ms", "JAX", "ratio", "MB", "JAX", "difference", "second run", title="Hessian-vector products on the GPU")
    for name, found in results.items():
        ours, theirs = found["nabla"].get("time"), found["jax"].get("time")
        ratio = f"{ours / theirs:.2f}" if ours and theirs else ""
        memory = [f"{found[side].get('memory', 0) / 1e6:.0f}" for side in ("nabla", "jax")]
        times = [f"{t * 1e3:.2f}" if t else found[side].get("error", "")[:40] for side, t in (("nabla", ours), ("jax", theirs))]
        table.add_row(name, *times, ratio, *memory, f"{found['nabla'].get('difference', 0):.0e}", _state(found["nabla"]))
    console.print(table)
    return int(any(_state(found["nabla"]) != "same" for found in results.values()))


def measure(ours: Process, theirs: Process, built: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The times of both sides, and the properties of the nabla_mlir side."""
    if "error" not in built["jax"]:
        built["jax"]["time"] = theirs.ask("time", 10)
    if "error" not in built["nabla"]:
        built["nabla"] |= ours.ask("check")
        first = ours.ask("time", 2)
        built["nabla"]["time"] = ours.ask("time", max(3, min(30, int(0.4 / first)))) if isinstance(first, float) else None
        built["nabla"] |= {"growth": ours.ask("growth", 6), "kernels": ours.ask("kernels", 40)}
    return built


def _state(found: dict[str, Any]) -> str:
    if not found.get("is_same"):
        return "differs"
    return "same" if found["is_kept"] else "changes its arguments"


if __name__ == "__main__":
    sys.exit(main())
