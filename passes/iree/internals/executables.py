"""The text of an executable with one kernel: its arguments, its buffers, its workgroups, and the frame around its operations."""

from __future__ import annotations

from collections.abc import Sequence

EXECUTABLE = "hal.executable.source"
_WORKGROUP = "hal.interface.workgroup.id[{axis}] : index"


def workgroup(axis: int = 0) -> str:
    """The operation that returns the index of the workgroup along an axis.

    Example:
      >>> workgroup()
      'hal.interface.workgroup.id[0] : index'
    """
    return _WORKGROUP.format(axis=axis)


def argument(name: str, position: int) -> list[str]:
    """The operations that define `name` as the integer argument number `position` of a kernel."""
    return [
        f"{name}_i32 = hal.interface.constant.load layout(#layout) ordinal({position}) : i32",
        f"{name} = arith.index_cast {name}_i32 : i32 to index",
    ]


def binding(name: str, type: str, position: int, start: str, read_only: bool) -> str:
    """The operation that defines the SSA value `name` as a buffer: binding number `position`, from the offset `start` on."""
    flag = " flags(ReadOnly)" if read_only else ""
    return f"{name} = hal.interface.binding.subspan layout(#layout) binding({position}) offset({start}){flag} : {type}"


def executable(
    name: str, read_only: Sequence[bool], lines: Sequence[str], counts: Sequence[int] | None = (1, 1, 1), numbers: int = 0
) -> str:
    """The text of an executable with one function.

    Args:
      name: the name of the executable and of the function.
      read_only: for each binding, True if the function only reads it.
      lines: the operations of the function.
      counts: the number of workgroups in x, y and z; None means that the call gives the numbers in x and y.
      numbers: the number of integer arguments.
    """
    kinds = ", ".join(f"#hal.pipeline.binding<storage_buffer{', ReadOnly' if flag else ''}>" for flag in read_only)
    constants = f"constants = {numbers}, " if numbers else ""
    if counts is None:
        workload, groups = ", %x: index, %y: index", "    %z = arith.constant 1 : index"
    else:
        workload = ""
        groups = "\n".join(f"    %{axis} = arith.constant {count} : index" for axis, count in zip("xyz", counts, strict=True))
    body = "\n".join(f"      {line}" for line in lines)
    return _EXECUTABLE.format(name=name, constants=constants, kinds=kinds, workload=workload, groups=groups, lines=body)


_EXECUTABLE = """#layout = #hal.pipeline.layout<{constants}bindings = [{kinds}]>
hal.executable.source private @{name} {{
  hal.executable.export public @{name} ordinal(0) layout(#layout) count(%d: !hal.device{workload}) -> (index, index, index) {{
{groups}
    hal.return %x, %y, %z : index, index, index
  }}
  builtin.module {{
    func.func @{name}() attributes {{translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<Default>>}} {{
{lines}
      return
    }}
  }}
}}
"""
