"""The kernels of a module, read from the text of IREE's flow phase: the calls, and the operations in each kernel."""

from __future__ import annotations

import re
from typing import NamedTuple

# The compiler stops when the kernels are formed; each line then has the location of its operation.
FLAGS = (
    "--compile-to=flow",
    "--mlir-print-debuginfo",
    "--mlir-elide-elementsattrs-if-larger=8",
    "--mlir-elide-resource-strings-if-larger=64",
)
_EXECUTABLE = re.compile(r"^  flow\.executable \S+ @(\S+) \{")
_CALL = re.compile(r"flow\.dispatch(?:\[[^\]]*\])? @(\S+?)::@(\S+?)\(.*?\) : (.*?)(?: loc\(|$)")
_CALLER = re.compile(r"^  (?:util|func)\.func (?:\w+ )?@(\w+)")
_SOURCE = re.compile(r'loc\((?:callsite\()?"@(\d+)"')
_FRAME = ("func.func", "^bb", "dispatch.tensor.load", "dispatch.tensor.store", "flow.")  # lines that compute nothing


class Call(NamedTuple):
    """A call of a kernel: the function that contains it, the kernel's name, its types as text, and its operations.

    An operation is the number in its location, `"@7"`.
    """

    caller: str
    name: str
    types: str
    sources: frozenset[int]


def calls(text: str) -> list[Call]:
    """The calls of kernels, in order, in the text of a module after the flow phase, which has a location on each line."""
    sources: dict[str, set[int]] = {}
    found: list[tuple[str, str, str, str]] = []
    executable, caller = "", ""
    for line in text.splitlines():
        if match := _EXECUTABLE.match(line):
            executable = match[1]
        elif line.startswith("  }"):
            executable = ""
        elif match := _CALLER.match(line):
            caller = match[1]
        if executable:
            if not any(word in line for word in _FRAME):
                sources.setdefault(executable, set()).update(map(int, _SOURCE.findall(line)))
        elif match := _CALL.search(line):
            found.append((match[1], caller, match[2], match[3]))
    return [Call(caller, name, types, frozenset(sources.get(kernel, ()))) for kernel, caller, name, types in found]
