"""No leak report of nanobind's when Python ends.

IREE's bindings print about 155 lines when one of their objects outlives the interpreter: an array in the frame of a daemon
thread, or in a module that PyTorch holds. The system takes the memory back anyway, and the user can do nothing about it.
nanobind has a switch for the report, `set_leak_warnings`, which only C++ can call and which IREE's runtime does not export. So
C code prints to nowhere from the last moment at which Python runs.
"""

from __future__ import annotations

import ctypes
import sys


class _LastMoment:
    """An object whose end points C's `stderr` at /dev/null. Python's own `sys.stderr` does not use it."""

    def __init__(self) -> None:
        process = ctypes.CDLL(None)
        self._open = process.fopen
        self._open.restype = ctypes.c_void_p
        self._stream = ctypes.c_void_p.in_dll(process, "stderr")

    def __del__(self) -> None:
        self._stream.value = self._open(b"/dev/null", b"w") or self._stream.value


def disable() -> None:
    """Silences the reports of this process. glibc documents that `stderr` can be assigned; elsewhere this does nothing."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        sys._nabla_mlir_last_moment = _LastMoment()  # type: ignore[attr-defined]  # Python clears `sys` after all other modules
