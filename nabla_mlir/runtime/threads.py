"""The number of threads that a program may use, and pools of threads."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path

from iree.runtime import HalDriver, get_driver
from iree.runtime._binding import create_hal_driver  # the only function of IREE that makes a second pool
from iree.runtime.flags import parse_flags

from nabla_mlir.base.errors import DeployError
from nabla_mlir.base.locks import new_lock

POOL = "local-task"  # the driver with its own threads
_flags_lock = new_lock()
_limit: int | None = None
_abandoned: list[HalDriver] = []  # abandoned pools stay referenced: IREE would wait for the threads of a pool that is freed
_FIRST_PROCESS = os.getpid()  # IREE itself holds the pool of the first process


def cores() -> int:
    """The number of cores that this process may use: those of its affinity, limited by its control groups and `limit`."""
    return max(1, math.ceil(min(_affinity(), granted(), _limit or math.inf)))


def _affinity() -> int:
    """The number of cores on which the system may run this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit(threads: int | None) -> None:
    """Limits the threads of modules that are loaded later, unless they state their number; None removes the limit.

    Raises:
      DeployError: the number is not positive.
    """
    global _limit
    _limit = None if threads is None else checked(threads)


@functools.cache
def granted(root: Path = Path("/sys/fs/cgroup"), group: Path = Path("/proc/self/cgroup")) -> float:
    """The number of cores that the control groups of this process allow, such as 1.5; infinite without a limit.

    Args:
      root: the folder at which the file system of the control groups is mounted, version 1 or 2.
      group: the file that names the control groups of the process.
    """
    return min(_quotas(root, group), default=math.inf)


def _quotas(root: Path, group: Path) -> Iterator[float]:
    """Yields the number of cores that each control group of the process, and each group around it, allows; nothing without a limit.

    A limit is a time that the group may use in each period. Example: the file `group` has the line ``0::/user/job``, and
    ``root/user/job/cpu.max`` is "200000 100000", microseconds; that yields 2.0. Version 1 has two files in ``root/cpu/user/job``.

    Args:
      root: the folder at which the file system of the control groups is mounted.
      group: the file that names the control groups of the process, one line ``id:controllers:path`` for each hierarchy.
    """
    for line in _text(group).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        innermost = root / (f"cpu/{path}" if controllers else path.lstrip("/"))  # the folder of the group itself
        for folder in (innermost, *innermost.parents):
            limits = _text(folder / "cpu.max").split() or [
                _text(folder / "cpu.cfs_quota_us").strip(),
                _text(folder / "cpu.cfs_period_us").strip(),
            ]
            if all(limit.isdigit() for limit in limits) and int(limits[1]):
                yield int(limits[0]) / int(limits[1])
            if folder == root:
                break


def _text(file: Path) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return file.read_text()
    except OSError:
        return ""


def checked(threads: int | None) -> int:
    """The number of threads after a check; None means the number of cores.

    Raises:
      DeployError: the number is not positive.
    """
    if threads is None:
        return cores()
    if type(threads) is not int or threads < 1:
        raise DeployError(f"load requires a positive number of threads, got {threads!r}.", help="None uses all cores.")
    return threads


def driver_with(name: str, threads: int) -> HalDriver:
    """The driver of this name whose pool has this many threads; all devices of the driver share the pool.

    A forked process gets a new one, because it has none of the threads.
    """
    return _driver(name, threads, generation(name))


def generation(name: str) -> tuple[int, int]:
    """The process, and for a driver with a pool the number of abandoned pools: a key that changes when a pool is lost.

    So a pool that is cached by this key is not used in a forked process, or after a call that did not end.
    """
    return os.getpid(), len(_abandoned) if name == POOL else 0


def abandon(pool: HalDriver) -> None:
    """Marks a pool as abandoned, as one of its threads is in a call that does not end; code loaded later has a new pool."""
    _abandoned.append(pool)


def is_abandoned(pool: HalDriver) -> bool:
    """True if a thread of the pool is in a call that does not end."""
    return any(pool is other for other in _abandoned)


@functools.cache
def _driver(name: str, threads: int, generation: tuple[int, int]) -> HalDriver:
    """The driver of IREE with this name and this number of threads in its pool; it is made once for each `generation`."""
    # A pool of IREE's default size has one thread on each core; the system places the threads of other pools.
    if name != POOL or (threads == _affinity() <= granted() and generation == (_FIRST_PROCESS, 0)):
        return get_driver(name)
    with _flags_lock:
        try:
            parse_flags(f"--task_topology_group_count={threads}")
            return create_hal_driver(name)
        finally:
            parse_flags("--task_topology_group_count=0")
