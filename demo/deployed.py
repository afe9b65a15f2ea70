"""Runs one entry point of an artifact as a deployed program would: with NumPy and IREE's runtime, nothing else.

usage: deployed.py MODULE.vmfb ENTRY INPUTS.npz OUTPUTS.npz
"""

import sys
import time

start = time.perf_counter()

import numpy as np  # noqa: E402

from nabla_mlir import runtime  # noqa: E402


def main(path: str, entry: str, inputs: str, outputs: str) -> None:
    """Calls the entry point on the arrays of `inputs`, which are named as in the manifest."""
    module = runtime.load(path)
    point = module.entry_points[entry]
    with np.load(inputs) as file:
        arguments = [a.tree.unflatten([file[leaf.name] for leaf in a.leaves]) for a in point.arguments]
    result = point.result.flatten(module[entry](*arguments), "result")
    arrays = {leaf.name: np.asarray(value) for leaf, value in zip(point.result_leaves, result, strict=True)}
    seconds = time.perf_counter() - start
    compiler = [name for name in sys.modules if name.startswith(("iree.compiler", "jax", "optree"))]
    assert not compiler, f"a deployed program requires the runtime only, got {compiler[0]}"
    np.savez(outputs, **arrays)
    print(f"{seconds:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
