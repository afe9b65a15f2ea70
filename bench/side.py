"""Runs one side of a comparison in a separate process: builds a function, then times it or measures its memory.

usage: side.py nabla|jax|truth WORKLOAD FUNCTION FOLDER [--driver DRIVER]
Reads requests as lines of JSON, such as ["time", 3], and answers each with a line. "truth" is JAX in f64.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIVE = 3  # the number of live results while the growth of memory is measured
WARM = 4  # calls after which memory should no longer grow


@dataclass
class Side:
    """A side that waits for requests until it is closed."""

    process: subprocess.Popen[str]
    built: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def start(side: str, workload: str, function: str, folder: Path, threads: int = 0, driver: str = "") -> Side:
        """Starts the process, on `threads` cores if the number is given, and builds the function in it."""
        command = [sys.executable, __file__, side, workload, function, str(folder), *(["--driver", driver] if driver else [])]
        if threads:
            cores = sorted(os.sched_getaffinity(0))[:threads]
            command = ["taskset", "-c", ",".join(map(str, cores)), *command]
        made = Side(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        try:
            made.built = made.ask("build")
        except BaseException:
            made.close()
            raise
        return made

    def ask(self, *request: Any) -> Any:
        """Returns the answer to a request. Raises RuntimeError with the error of the side if it failed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()


# ---------------------------------------------------------------- in the process


class Server:
    """Answers requests about one function."""

    def __init__(self, side: str, workload: str, function: str, folder: Path, driver: str):
        self.side, self.name, self.folder, self.driver = side, function, folder, driver
        from measuring import KNOWN

        self.workload = KNOWN[workload]
        self.call: Callable[[], Any]

    def build(self) -> dict[str, Any]:
        """Compiles the function, copies its arguments to the device, and calls it once."""
        from measuring import direction

        args = self.workload.inputs()
        inputs = (args[0], direction(args[0]), *args[1:]) if self.name == "hvp" else args
        return self._build_nabla(inputs) if self.side == "nabla" else self._build_jax(inputs)

    def _build_nabla(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        from frameworks import nabla, nabla_functions
        from sizes import barriers_of

        import nabla_mlir as nm
        from nabla_mlir import runtime
        from nabla_mlir.base import pytree
        from nabla_mlir.runtime.profile import dispatches_of

        f = nabla_functions(self.workload, self.workload.function(nabla()))[self.name]
        start = time.perf_counter()
        lowered = nm.trace(f, *inputs, name=self.name).lower()
        traced = time.perf_counter()
        compiled = lowered.compile(nm.CPU("host"), cache=False)
        seconds = {"lower": traced - start, "compile": time.perf_counter() - traced}
        path = self.folder / f"{self.workload.name}.{self.name}.vmfb"
        compiled.save(path)
        module = runtime.load(path, self.driver or None)
        device = module.executable.device
        leaves, tree = pytree.flatten(inputs)
        arguments = tree.unflatten([runtime.Array.from_numpy(leaf, device) for leaf in leaves])
        function = module[self.name]
        self.call = lambda: function(*arguments)
        dispatches = sum(d.count for d in dispatches_of(compiled.vmfb, module.entry_points[self.name]))
        return {
            "seconds": seconds,
            "driver": module.driver_of(self.name),
            "dispatches": dispatches,
            "barriers": barriers_of(lowered.module, compiled.target),
        }

    def _build_jax(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        import jax
        import numpy as np
        from frameworks import jax_functions

        if self.side == "truth":
            inputs = jax.tree.map(lambda a: a.astype(np.float64) if a.dtype == np.float32 else a, inputs)
        jax.config.update("jax_enable_x64", any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(inputs)))
        arguments = jax.tree.map(jax.device_put, inputs)
        start = time.perf_counter()
        lowered = jax.jit(jax_functions(self.workload)[self.name]).lower(*arguments)
        traced = time.perf_counter()
        compiled = lowered.compile()
        seconds = {"lower": traced - start, "compile": time.perf_counter() - traced}
        self.call = lambda: jax.block_until_ready(compiled(*arguments))
        return {"seconds": seconds}

    def memory(self, calls: int) -> dict[str, float]:
        """The peak of the additional memory of a call in bytes, and the growth of memory for each later call.

        A few results are live at a time, as in a user's program.
        """
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = _resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        live = collections.deque([self.call()], 1)
        live.clear()
        peak = _resident("VmHWM") - before
        live = collections.deque(maxlen=LIVE)
        for _ in range(WARM):
            live.append(self.call())
        warm = _resident("VmRSS")
        for _ in range(calls):
            live.append(self.call())
        return {"peak": peak, "growth": (_resident("VmRSS") - warm) / max(calls, 1)}

    def time(self, calls: int) -> list[float]:
        """The seconds of each of `calls` calls."""
        found = []
        for _ in range(calls):
            start = time.perf_counter()
            result = self.call()
            found.append(time.perf_counter() - start)
            del result
        return found

    def save(self) -> str:
        """Writes all numbers of a result as a vector, and returns the file."""
        import numpy as np
        from measuring import flat

        path = self.folder / f"{self.workload.name}.{self.name}.{self.side}.npy"
        np.save(path, flat(self.call()))
        return str(path)


def _resident(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(key)).split()[1])


def main() -> None:
    """Serves requests until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("side", choices=("nabla", "jax", "truth"))
    parser.add_argument("workload")
    parser.add_argument("function")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--driver", default="")
    options = parser.parse_args()
    serve(lambda: Server(options.side, options.workload, options.function, options.folder, options.driver))


def serve(make: Callable[[], object]) -> None:
    """Makes a server, which answers each request with a line until the input ends."""
    # Output of libraries must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = make()
    for line in sys.stdin:
        request, *arguments = json.loads(line)
        try:
            answer = {"answer": getattr(server, request)(*arguments)}
        except Exception as error:  # after any error, the other side is still measured
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
