"""Disables the leak report of nanobind when Python ends.

IREE's bindings print about 155 lines if one of their objects outlives the interpreter, for example an array in the
frame of a daemon thread, or in a module that PyTorch holds. The system frees the memory anyway, and the user can do
nothing about it. nanobind has a switch for the report, `set_leak_warnings`, but only C++ can call it and IREE's runtime
does not export it. So C's `stderr` is redirected to /dev/null at the last moment at which Python code runs.
"""

from __future__ import annotations

import ctypes
import sys


class _LastMoment:
    """An object that redirects C's `stderr` to /dev/null when it is freed. Python's own `sys.stderr` does not use C's."""

    def __init__(self) -> None:
        """Looks up what `__del__` needs, because modules are gone when it runs."""
        process = ctypes.CDLL(None)
        self._open = process.fopen
        self._open.restype = ctypes.c_void_p
        self._stream = ctypes.c_void_p.in_dll(process, "stderr")

    def __del__(self) -> None:
        """Redirects C's `stderr`, which nanobind writes its report to."""
        self._stream.value = self._open(b"/dev/null", b"w") or self._stream.value


def disable() -> None:
    """Silences the reports of this process. glibc documents that `stderr` can be assigned; elsewhere this does nothing."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        sys._nabla_mlir_last_moment = _LastMoment()  # type: ignore[attr-defined]  # Python clears `sys` after all other modules
