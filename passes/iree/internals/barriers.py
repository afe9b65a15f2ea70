"""Barriers on the host: IREE knows nothing about their results, and moves no operation of the device across them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.stablehlo import emit

HOST_BARRIER = "util.optimization_barrier"


def behind_barrier(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values, each of which IREE no longer recognises."""
    return list(emit(HOST_BARRIER, values, results=[value.type for value in values]).results)
