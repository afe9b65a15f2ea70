"""Calls of Python functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.conversion import rank_of
from nabla_mlir.base.errors import CallbackError, user_frame
from nabla_mlir.dialects.stablehlo import String
from nabla_mlir.interpreter.evaluations import evaluation
from nabla_mlir.ops.callbacks import TARGET, callback_of


@evaluation(f"stablehlo.custom_call @{TARGET}")
def python(*arrays: np.ndarray, backend_config: Any, results: Any, **_: Any) -> list[np.ndarray]:
    """The results of a Python function; raises CallbackError unless they have the declared shapes and dtypes.

    `backend_config` holds the function's number, and `results` the pairs of shape and dtype.
    """
    got = [np.asarray(y) for y in callback_of(String.decode(backend_config))(*arrays)]
    for y, (shape, dtype) in zip(got, results, strict=True):
        if y.shape != shape:
            raise CallbackError(
                f"pure_callback requires results of the shapes that it promises, got {y.shape} for {shape}.", where=user_frame()
            )
        if rank_of(y.dtype) > rank_of(dtype):
            raise CallbackError(
                f"pure_callback requires results of the dtypes that it promises, got {y.dtype} for {dtype}.",
                where=user_frame(),
                help="convert the result, or promise its dtype.",
            )
    return [y.astype(dtype, copy=False) for y, (_, dtype) in zip(got, results, strict=True)]
