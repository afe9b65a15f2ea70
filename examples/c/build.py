"""Newton's method in plain C: `newton.c` with the Hessian of a Rosenbrock function, linked as a static library.

python examples/c/build.py FOLDER

makes FOLDER/rosenbrock.{h,c,o}, which hold the function, its gradient and its Hessian's products as C functions, and
links them with newton.c by the C compiler of this machine. The program needs no Python and no runtime.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nabla_mlir as nm


def rosenbrock(x: Any) -> Any:
    """A curved valley with its lowest point where all x are 1."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def build(folder: Path, n: int = 100) -> Path:
    """Writes the library and the program; returns the path of the program."""
    # `update` moves to a point and keeps what the products there have in common; `apply` is one product.
    stage = nm.hvp_module(rosenbrock, nm.spec(n, "f64"), entry_points=("update", "apply"))
    header = nm.save_static_library(stage, folder / "rosenbrock", nm.CPU("generic"))
    program, here = folder / "newton", Path(__file__).parent
    sources = [here / "newton.c", header.with_suffix(".c"), header.with_suffix(".o")]
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-O2", f"-I{folder}", f"-DN={n}", *sources, "-lm", "-o", program]
    subprocess.run(list(map(str, command)), check=True)
    return program


if __name__ == "__main__":
    folder = Path(sys.argv[1] if sys.argv[1:] else "out")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(build(folder))], check=True)
