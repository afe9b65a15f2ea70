"""An executable that holds the text of a kernel in Triton's dialect, until machine code replaces the text."""

from __future__ import annotations

import json
from collections.abc import Sequence

TRITON = "nabla.triton"  # the attribute with the text of the kernel


def triton_source(name: str, text: str, blocks: int, warps: int, stages: int, read_only: Sequence[bool]) -> str:
    """The text of an executable that holds a kernel.

    Args:
      name: the name of the kernel.
      text: the module in Triton's dialect.
      blocks: the number of blocks of threads.
      warps: the number of warps of 32 threads in a block.
      stages: the number of iterations of a loop whose loads are under way.
      read_only: for each argument, True if the kernel only reads it.
    """
    kinds = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if flag else ''}>" for flag in read_only)
    options = json.dumps({"text": text, "warps": warps, "stages": stages})
    return _EXECUTABLE.format(name=name, kinds=kinds, blocks=blocks, threads=32 * warps, options=json.dumps(options))


_EXECUTABLE = """#layout = #hal.pipeline.layout<bindings = [{kinds}]>
hal.executable.source private @{name} attributes {{nabla.triton = {options}}} {{
  hal.executable.export public @{name} ordinal(0) layout(#layout) count(%d: !hal.device) -> (index, index, index) {{
    %x = arith.constant {blocks} : index
    %one = arith.constant 1 : index
    hal.return %x, %one, %one : index, index, index
  }} <workgroup_size = [{threads} : index, 1 : index, 1 : index], subgroup_size = 32>
}}
"""
