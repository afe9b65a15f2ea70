"""Computes one Hessian-vector product in a new process, from the artifact or by JAX from the source.

usage: cold.py nabla|jax WORKLOAD FILE.vmfb INPUTS.npz
"""

import sys

import numpy as np


def main(side: str, name: str, path: str, inputs: str) -> None:
    """Runs it once and waits for the result."""
    with np.load(inputs) as file:
        leaves = [file[key] for key in file.files]
    if side == "nabla":
        from nabla_mlir import runtime

        module = runtime.load(path)
        arguments, start = [], 0
        for argument in module.entry_points["hvp"].arguments:
            stop = start + len(argument.leaves)
            arguments.append(argument.tree.unflatten(leaves[start:stop]))
            start = stop
        result = module.entry_points["hvp"].result.flatten(module.hvp(*arguments))
        np.asarray(result[0])
        return
    import jax
    from frameworks import jax_functions
    from workloads import WORKLOADS
    from workloads_sweep import SWEEP

    workload = next(w for w in (*WORKLOADS, *SWEEP) if w.name == name)
    args = workload.inputs()
    tree = jax.tree.structure((args[0], args[0], *args[1:]))
    hvp = jax.jit(jax_functions(workload)["hvp"])
    jax.config.update("jax_enable_x64", any(leaf.dtype == np.float64 for leaf in leaves))
    jax.block_until_ready(hvp(*jax.tree.unflatten(tree, leaves)))


if __name__ == "__main__":
    main(*sys.argv[1:])
