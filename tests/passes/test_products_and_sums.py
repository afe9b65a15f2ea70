"""Random programs of products, copies, sums and transposes: the simplified IR of their derivatives, against JAX."""

import itertools
import random

import jax
import numpy as np
import pytest
from xla import run_module

import nabla_mlir as nm
import nabla_mlir.numpy as jnp

AXES = "abcde"
STEPS = ["dot", "dot", "dot", "copy", "copy", "turn", "sum", "any", "join"]


def program(seed):
    """The sizes of axes, the axes of the inputs, and the steps: (name, places of the operands, their axes, axes of the result)."""
    rng = random.Random(seed)
    sizes = {axis: rng.choice([0, 1, 2, 3, 4] if seed % 10 == 0 else [1, 2, 3, 4]) for axis in AXES}
    values = ["".join(rng.sample(AXES, rng.randint(0, 3))) for _ in range(3)]
    inputs, steps = list(values), []
    for _ in range(rng.randint(5, 9)):
        name, i, j = rng.choice(STEPS), rng.randrange(len(values)), 0
        i = len(values) - 1 if rng.random() < 0.5 else i  # what was just made, and by now nothing else reads
        axes = values[i]
        if name == "dot":
            j = rng.randrange(len(values))
            stored = [axis for axis in dict.fromkeys(axes + values[j]) if rng.random() < 0.75]
            result = "".join(rng.sample(stored, len(stored)))
        elif name == "copy":
            new = rng.choice([axis for axis in AXES if axis not in axes] or [""])
            at = rng.randint(0, len(axes))
            result = axes[:at] + new + axes[at:]
        elif name == "turn":
            result = "".join(rng.sample(axes, len(axes)))
        elif name == "join":
            j = rng.choice([k for k, other in enumerate(values) if sorted(other) == sorted(axes)])
            result = axes
        else:
            result = "".join(axis for axis in axes if rng.random() < 0.5)
        steps.append((name, (i, j), (axes, values[j]), result))
        values.append(result)
    return sizes, inputs, steps


def loss(np_, sizes, steps, inputs):
    """The sum of the squares of the last three values of a program."""
    values = list(inputs)
    for name, (i, j), (axes, others), result in steps:
        x, y = values[i], values[j]
        gone = tuple(k for k, axis in enumerate(axes) if axis not in result)
        if name == "dot":
            values.append(np_.einsum(f"{axes},{others}->{result}", x, y))
        elif name == "copy":
            positions = tuple(slice(None) if axis in axes else None for axis in result)
            values.append(np_.broadcast_to(x[positions] if result else x, [sizes[axis] for axis in result]))
        elif name == "turn":
            values.append(np_.transpose(x, [axes.index(axis) for axis in result]))
        elif name == "join":
            turned = np_.transpose(y, [others.index(axis) for axis in axes])
            values.append(np_.where(~(x > turned), turned, x) + 0.1 * turned)
        elif name == "sum":
            values.append(np_.sum(x, axis=gone))
        else:
            total = np_.sum(x, axis=gone, keepdims=True)
            there = np_.any(~(x > 0.1) | (total > 0), axis=gone)
            values.append(np_.where(there, 1.5, 0.5) * np_.reshape(total, there.shape))
    return sum(np_.sum(v * v) for v in values[-3:])


@pytest.mark.parametrize("first", [0, 10])
def test_derivatives(first):
    programs, args = [program(seed) for seed in range(first, first + 10)], []
    for seed, (sizes, inputs, _) in enumerate(programs):
        rng = np.random.default_rng([first, seed])
        args.append([rng.normal(size=[sizes[axis] for axis in axes]) for axes in inputs])

    def all_of(np_, grad, hvp):
        def derivatives(args):
            found = []
            for (sizes, _, steps), xs in zip(programs, args, strict=True):
                f = lambda xs, sizes=sizes, steps=steps: loss(np_, sizes, steps, xs)  # noqa: E731
                found += [f(xs), grad(f)(xs), hvp(f)(xs, xs)]
            return found

        return derivatives

    lowered = nm.trace(all_of(jnp, nm.grad, nm.hvp), args, name="main").lower()
    found = run_module(lowered.mlir(), jax.tree.leaves(args))
    theirs = all_of(jax.numpy, jax.grad, lambda f: lambda xs, ts: jax.jvp(jax.grad(f), (xs,), (ts,))[1])
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(jax.jit(theirs)(args))
    for ours, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-9, atol=1e-10 * np.max(np.abs(exact), initial=1))


def test_sums_of_products():
    """Along every set of axes of the product, of one product and of two, of which one is turned."""
    rng, sizes = np.random.default_rng(0), dict(zip("abcde", (2, 3, 4, 5, 1), strict=True))
    cases, wanted = [], []
    for spec in ("ab,bc->ac", "ab,cb->ac", "bac,bcd->bad", "acb,dcb->bad", "abc,cd->abd", "abe,bce->ac"):
        left, right = ([sizes[axis] for axis in axes] for axes in spec.split("->")[0].split(","))
        x, y, z = rng.normal(size=left), rng.normal(size=right), rng.normal(size=right)
        rank = len(spec.split("->")[1])
        for axes in (axes for n in range(1, rank + 1) for axes in itertools.combinations(range(rank), n)):
            cases.append((spec, axes, x, y, z))
            wanted.append(np.sum(np.einsum(spec, x, y), axis=axes))
            wanted.append(np.sum(np.einsum(spec, x, y) + np.einsum(spec, x, z), axis=axes))

    def sums(inputs):
        found = []
        for (spec, axes, *_), (x, y, z) in zip(cases, inputs, strict=True):
            factors, result = spec.split("->")
            turned = jnp.transpose(jnp.einsum(f"{factors}->{result[::-1]}", x, z))
            found += [jnp.sum(jnp.einsum(spec, x, y), axis=axes), jnp.sum(jnp.einsum(spec, x, y) + turned, axis=axes)]
        return found

    inputs = [case[2:] for case in cases]
    text = nm.trace(sums, inputs, name="main").lower().mlir()
    for found, exact in zip(run_module(text, jax.tree.leaves(inputs)), wanted, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
