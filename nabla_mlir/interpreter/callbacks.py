"""Calls of Python functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.ops.callbacks import TARGET, callback_of


@evaluation(f"stablehlo.custom_call @{TARGET}")
def python(*arrays: np.ndarray, backend_config: Any, results: Any, **_: Any) -> list[np.ndarray]:
    """The results of the Python function; raises an error unless they have the declared shapes."""
    got = [np.asarray(y, dtype) for y, (_, dtype) in zip(callback_of(String.decode(backend_config))(*arrays), results, strict=True)]
    for y, (shape, _) in zip(got, results, strict=True):
        if y.shape != shape:
            raise ShapeError(
                f"pure_callback requires results of the shapes that it promises, got {y.shape} for {shape}.", where=user_frame()
            )
    return got
