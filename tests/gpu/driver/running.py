"""Runs artifacts for CUDA on the mock driver, in processes of their own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

COUNTERS = ("launches", "copies", "fills", "allocations", "waits")  # in the order of mock.c
_SIZE = 8 << 30  # bytes of the device's memory, of which only those that are written exist
_TESTS = Path(__file__).resolve().parents[2]


class Run(NamedTuple):
    """The results of a call, flattened, and the numbers of COUNTERS by name."""

    results: list[NDArray[Any]]
    counters: dict[str, int]


@dataclass(frozen=True)
class MockDriver:
    """A compiled mock driver, in a folder that the loader of the system is told."""

    folder: Path

    @classmethod
    def compiled(cls, folder: Path, compiler: str) -> MockDriver:
        """Compiles mock.c into the folder."""
        command = [
            compiler,
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            "-o",
            str(folder / "libcuda.so.1"),
            str(Path(__file__).with_name("mock.c")),
            "-ldl",
            "-lpthread",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        (folder / "libcuda.so").symlink_to("libcuda.so.1")
        return cls(folder)

    def run(self, artifact: Path, entry: str, arguments: tuple[Any, ...], seconds: float = 60) -> Run:
        """Calls an entry point of an artifact once.

        Raises:
          AssertionError: it failed, or did not end in time; the text is what the processes wrote.
        """
        memory = os.memfd_create("memory of the mock driver")
        os.truncate(memory, _SIZE)
        lines, to = os.pipe()
        source, answers = os.pipe()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OPENBLAS_NUM_THREADS": "1",
        }
        libraries = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as output:
            given, results = Path(name, "arguments"), Path(name, "results")
            given.write_bytes(pickle.dumps(arguments))
            simulator = subprocess.Popen(
                [sys.executable, "-m", "gpu.driver.simulator", str(memory), str(_SIZE), str(lines), str(answers)],
                env=environment,
                stdout=output,
                stderr=output,
                pass_fds=(memory, lines, answers),
            )
            client = subprocess.Popen(
                [sys.executable, "-m", "gpu.driver.client", str(artifact), entry, str(given), str(results)],
                env=environment | {"LD_LIBRARY_PATH": libraries, "MOCK_CUDA": f"{memory} {_SIZE} {to} {source}"},
                stdout=output,
                stderr=output,
                pass_fds=(memory, to, source),
            )
            for file in (memory, lines, to, source, answers):
                os.close(file)
            try:
                code: object = client.wait(seconds)
                simulator.wait(10)  # its pipe has ended
            except subprocess.TimeoutExpired:
                code = f"no end after {seconds} s"
            finally:
                for process in (client, simulator):
                    process.kill()
                    process.wait()
            output.seek(0)
            text = output.read()
            assert (code, text) == (0, ""), f"{artifact.name} @{entry} on the mock driver: {code}\n{text[-6000:]}"
            return Run(*pickle.loads(results.read_bytes()))
