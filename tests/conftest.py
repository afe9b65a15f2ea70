"""For all tests: each sees the same random numbers, whichever ran before it; files leave no thread that computes, and little memory."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import launched
from needs import header

# JAX computes what most tests compare with, each program once: half of the time of the tests goes into compiling those. Without its
# newer emitters and without optimisation XLA takes half as long; without fused multiply-adds equal expressions still have equal values.
# It ends the process at a flag that it does not know: only where it is known.
if metadata.version("jaxlib").startswith("0.10."):
    flags = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_max_isa=AVX"
    os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()

os.environ.setdefault("NABLA_MLIR_TRACEBACK", "full")  # a failed test shows our own functions, too

_first: dict[tuple[str, str], Any] = {}


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says first how long the tests take and which are skipped, unless the command names files."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return []
    return header(config.option.markexpr or config.option.keyword)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets the generators of a module of tests back to where they stood when it had been read."""
    module = getattr(item, "module", None)
    for name, generator in vars(module).items() if module else ():
        if isinstance(generator, np.random.Generator):
            state = generator.bit_generator.state
            generator.bit_generator.state = copy.deepcopy(_first.setdefault((module.__name__, name), state))


# One file of each room, which run in less than a minute together: pytest -m smoke.
SMOKE = frozenset(
    (
        "test_readme.py",
        "deploy/test_artifact.py",
        "deploy/test_executable.py",
        "deploy/test_stablehlo.py",
        "deploy/test_untrusted.py",
        "frontend/test_argnums.py",
        "frontend/test_checkpoint.py",
        "frontend/test_control.py",
        "frontend/test_errors.py",
        "frontend/test_execution.py",
        "frontend/test_linalg.py",
        "interpreter/test_target.py",
        "ops/test_conventions.py",
        "ops/test_table.py",
        "passes/test_canonicalize_batch.py",
        "passes/test_schedule.py",
        "passes/test_signs_of_zeros.py",
        "sparse/test_colorings.py",
        "sparse/test_derivatives.py",
        "tools/test_values.py",
    )
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m smoke` the other files are not read: that would take longer than the tests."""
    if config.option.markexpr != "smoke" or collection_path.is_dir():
        return None
    name = os.path.relpath(collection_path, Path(__file__).parent)
    return True if Path(name).as_posix() not in SMOKE else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--share=K/N`: of the slow tests, those of one share of N run."""
    parser.addoption("--share", metavar="K/N", help="of the slow tests, only share K of N (K from 0)")


def _leave_share(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leaves the slow tests of one share, which is the same in each process; all shares together are all tests."""
    share, shares = map(int, config.option.share.split("/"))
    others = [i for i in items if i.get_closest_marker("slow") and zlib.crc32(i.nodeid.encode()) % shares != share]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Marks the smoke tests, and puts those that run for minutes first: at the end one core would wait for them."""
    if config.option.share:
        _leave_share(items, config)
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)
    for item in items:
        name = item.path.relative_to(Path(__file__).parent).as_posix()
        if name in SMOKE and not (item.get_closest_marker("slow") or item.get_closest_marker("vulkan")):
            item.add_marker("smoke")


def pytest_collection_finish() -> None:
    """The modules of all tests stay: garbage is looked for among what tests make, and less often than after 700 objects."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """At the end of the process they are garbage too."""
    gc.unfreeze()


RESIDENT = 2 << 30  # bytes of a process, above which JAX lets its programs go
_STATM = Path("/proc/self/statm")


@pytest.fixture(scope="module", autouse=True)
def memory() -> Iterator[None]:
    """After a file of tests: JAX keeps a program of a megabyte for each operation on each shape, 8 GB in a whole run."""
    yield
    if "jax" in sys.modules and _STATM.exists():
        pages = int(_STATM.read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > RESIDENT:
            sys.modules["jax"].clear_caches()
            getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # glibc keeps what is free otherwise


_AFTER = 20  # seconds after a file of tests in which what it has started may go on


@pytest.fixture(scope="module", autouse=True)
def idle(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails after a file that leaves a thread which computes: it would take a core from all tests that follow."""
    yield
    if any(item.get_closest_marker("vulkan") for item in request.session.items):
        return  # threads of the software device wait in a loop until the process ends
    for _ in range(_AFTER * 10):
        began = time.process_time()
        time.sleep(0.02)
        if time.process_time() - began < 0.01:
            return
        time.sleep(0.08)
    names = ", ".join(thread.name for thread in threading.enumerate())
    pytest.fail(f"the tests of this file leave a thread that goes on computing; threads of Python: {names}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, for the tests of a module; they are skipped where it is missing."""
    with launched() as browser:
        yield browser
