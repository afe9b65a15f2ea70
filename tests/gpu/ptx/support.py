"""Small kernels for the tests of the interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu.ptx.numbers import BITS, UNSIGNED, Array
from gpu.ptx.parser import parse
from gpu.ptx.simulator import Simulator

_REGISTERS = "\n".join(
    f".reg .{kind} %{prefix}<64>;"
    for prefix, kind in (("p", "pred"), ("b", "b8"), ("h", "b16"), ("r", "b32"), ("d", "b64"), ("f", "f32"), ("g", "f64"))
)
_PREFIX = {8: "b", 16: "h", 32: "r", 64: "d"}


def module(body: str, parameters: int = 0, arrays: str = "") -> str:
    """A module with the kernel `k`, whose parameters are addresses, in %d1, %d2, ...; %d0 is the number of the thread."""
    names = ", ".join(f".param .u64 p{n}" for n in range(parameters))
    loads = "\n".join(f"ld.param.u64 %d{n + 1}, [p{n}];" for n in range(parameters))
    start = "mov.u32 %r0, %tid.x; cvt.u64.u32 %d0, %r0;"
    return (
        f".version 8.0\n.target sm_90a\n{arrays}\n.visible .entry k({names}) {{\n{_REGISTERS}\n{loads}\n{start}\n{body}\nret;\n}}"
    )


def run(
    body: str, arrays: Sequence[Array], threads: int = 32, grid: int = 1, declared: str = "", dynamic: int = 0
) -> tuple[list[Array], Counter[str]]:
    """The arrays after a launch with their addresses, and the counters."""
    simulator = Simulator(np.zeros(1 << 20, np.uint8))
    addresses = [simulator.put(x) for x in arrays]
    kernel = parse(module(body, len(arrays), declared))["k"]
    simulator.launch(kernel, (grid,), addresses, (threads,), dynamic)
    return [simulator.get(a, x.shape, x.dtype) for a, x in zip(addresses, arrays, strict=True)], simulator.counts


def each(text: str, kind: str, *operands: tuple[str, Any]) -> Array:
    """The results of one instruction in threads 0, 1, ...

    Args:
      text: the instruction; {} is its result, {0}, {1}, ... its operands.
      kind: the type of the result; "pred" gives 0 or 1.
      operands: the type and the numbers of each.
    """
    arrays = [np.ascontiguousarray(numbers) for _, numbers in operands]
    count = len(arrays[0])
    lines, names = [], []
    for n, (given, array) in enumerate(operands):
        size = array.dtype.itemsize if hasattr(array, "dtype") else 4
        assert size * 8 == BITS[given]
        name = f"%{_PREFIX[BITS[given]]}{n + 20}"
        names.append(name)
        lines += [f"mad.lo.u64 %d10, %d0, {size}, %d{n + 1};", f"ld.global.b{8 * size} {name}, [%d10];"]
    bits = 32 if kind == "pred" else BITS[kind]
    result = f"%{_PREFIX[bits]}50"
    if kind == "pred":
        lines += [text.replace("{}", "%p1").format(*names) + ";", f"selp.u32 {result}, 1, 0, %p1;"]
    else:
        lines.append(text.replace("{}", result).format(*names) + ";")
    lines += [f"mad.lo.u64 %d10, %d0, {bits // 8}, %d{len(arrays) + 1};", f"st.global.b{bits} [%d10], {result};"]
    (*_, found), _ = run("\n".join(lines), [*arrays, np.zeros(count, UNSIGNED[bits])], threads=count)
    return found
