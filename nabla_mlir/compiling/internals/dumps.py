"""Files that the compiler writes next to an artifact: the host program as IR, and machine code with the name of its entry."""

from __future__ import annotations

import re
from pathlib import Path


def flags(folder: str, code: Path) -> list[str]:
    """The flags of iree-compile by which it writes the host program into the folder, and the machine code to the file `code`."""
    return [
        "--iree-llvmcpu-link-embedded=false",
        "--iree-llvmcpu-link-static",
        f"--iree-llvmcpu-static-library-output-path={code}",
        f"--dump-compilation-phases-to={folder}",
    ]


def text_in(folder: str) -> str:
    """The host program that the compiler has written into a folder."""
    return next(Path(folder).glob("*executable-targets.mlir")).read_text()


def query_of(code: Path) -> str:
    """The name of the function that returns the machine code of a library, from the header next to `code`; "" without one."""
    match = re.search(r"(\w+_library_query)\(", code.with_suffix(".h").read_text())
    return match[1] if match else ""
