"""The log, by Python's `logging`: each compilation with its reason, and which entries the cache had.

Loggers: `nabla_mlir.jit` (why a function is traced again), `nabla_mlir.compile` (what is compiled, for what, in how many seconds),
`nabla_mlir.cache` (what was found). They are silent until a program or NABLA_MLIR_LOG, such as ``NABLA_MLIR_LOG=jit,compile``, asks
for them.
"""

from __future__ import annotations

import logging
import os
import warnings

from nabla_mlir.base.errors import user_frame

VARIABLE = "NABLA_MLIR_LOG"
_ROOT = logging.getLogger("nabla_mlir")
_ROOT.addHandler(logging.NullHandler())


def logger(topic: str) -> logging.Logger:
    """The logger of a topic: jit, compile or cache."""
    one = _ROOT.getChild(topic)
    if topic in os.environ.get(VARIABLE, "").split(",") and not one.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        one.addHandler(handler)
        one.setLevel(logging.INFO)
    return one


def warn(message: str) -> None:
    """Gives a RuntimeWarning at the user's own line, or at that of the caller if no line of the stack is the user's."""
    where = user_frame()
    if where is None:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, RuntimeWarning, where.filename, where.line)
