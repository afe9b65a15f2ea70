"""Runs the first update and product of a prepared artifact in a new process, and prints the seconds since Python started.

usage: first.py FILE.vmfb
"""

import time

START = time.perf_counter()

import sys  # noqa: E402

import numpy as np  # noqa: E402


def main(path: str) -> None:
    """Loads the artifact, updates it at zeros, and multiplies by zeros."""
    from nabla_mlir import runtime

    module = runtime.load(path)
    for name in ("update", "apply"):
        arguments = module.entry_points[name].arguments
        zeros = [a.tree.unflatten([np.zeros(leaf.shape, leaf.dtype) for leaf in a.leaves]) for a in arguments]
        result = module[name](*zeros)
    np.asarray(module.entry_points["apply"].result.flatten(result)[0])
    print(time.perf_counter() - START)


if __name__ == "__main__":
    main(*sys.argv[1:])
