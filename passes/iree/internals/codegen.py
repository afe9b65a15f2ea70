"""Operations and attributes of IREE's code generator: tile sizes of a product, and gathers of rows."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

GATHER = "iree_linalg_ext.gather"


def tiling(distribution: Sequence[int], parallel: Sequence[int], reduction: Sequence[int]) -> ir.Attribute:
    """The attribute `compilation_info` with tile sizes: of workgroups, of parallel vectors and of reduction vectors."""
    tiles = f"distribution = {list(distribution)}, vector_common_parallel = {list(parallel)}, vector_reduction = {list(reduction)}"
    return ir.Attribute.parse(
        f"#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<{tiles}>, "
        "translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>"
    )
