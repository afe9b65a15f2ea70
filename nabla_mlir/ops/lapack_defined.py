"""Routines of LAPACK that the importer writes by other operations, or in a more exact form, so that the rules of those apply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from nabla_mlir.ops.lapack import option, orthogonal, routine
from nabla_mlir.ops.linalg import adjoint, mask_like, matmul
from nabla_mlir.ops.logic import select
from nabla_mlir.table.tensor import Tensor


def _ormqr(target: str, xs: Sequence[Tensor], config: Any) -> list[Tensor]:
    """A list with the product of a matrix with the Q of a QR factorisation; `xs` are the packed factors of geqrf, tau, and the
    matrix.

    `config` says if Q is transposed, and on which side it stands. `target` is the name of the routine.
    """
    packed, taus, c = xs
    q = orthogonal(re.sub("ormqr|unmqr", "geqrf", target), packed, taus)
    q = adjoint(q) if config["transpose"].value else q
    return [matmul(q, c) if config["left"].value else matmul(c, q)]


def _potrf(target: str, xs: Sequence[Tensor], config: Any) -> list[Tensor]:
    """The Cholesky factor in one triangle of the operand, whose other triangle is unchanged, and the code of success.

    `config` names the triangle. `target` is the name of the routine.
    """
    (a,), uplo = xs, option(config, "uplo")
    factor, info = routine(target, [a], [(a.shape, a.dtype), (a.shape[:-2], np.dtype(np.int32))], uplo=uplo)
    return [select(mask_like(a, "GE" if uplo == "L" else "LE"), factor, a), info]


def _gesvd(target: str, xs: Sequence[Tensor], config: Any) -> list[Tensor]:
    """The results of gesvd, by gesdd, which has the same ones; `config` has the mode, and `target` is the name of the routine."""
    (a,), mode = xs, option(config, "mode")
    *stack, m, n = a.shape
    k = min(m, n)
    rows, columns = {"A": (m, n), "S": (k, k), "N": (m, n)}[mode]
    singular = np.dtype(a.dtype.type(0).real.dtype)
    shapes = [
        (a.shape, a.dtype),
        ((*stack, k), singular),
        ((*stack, m, rows), a.dtype),
        ((*stack, columns, n), a.dtype),
        (tuple(stack), np.dtype(np.int32)),
    ]
    return routine(target.replace("gesvd", "gesdd"), [a], shapes, mode=mode)


_DEFINED = {"ormqr": _ormqr, "unmqr": _ormqr, "gesvd": _gesvd, "potrf": _potrf}


def defined(target: str) -> Any:
    """The function ``(target, operands, config) -> results`` that writes a routine by others; None if there is none."""
    name = re.fullmatch(r"lapack_[sdcz](\w+)_ffi", target)
    return _DEFINED.get(name[1]) if name is not None else None
