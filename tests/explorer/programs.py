"""Programs whose explanations are looked at."""

import random

import nabla_mlir as nm
import nabla_mlir.numpy as nnp


def predict(params, rows):
    hidden = nnp.tanh(rows @ params["w"] + params["b"])
    return hidden @ params["v"]


def loss(params, rows, targets):
    errors = predict(params, rows) - targets
    return nnp.mean(errors**2)


PARAMS = {"w": nm.spec((4, 8)), "b": nm.spec(8), "v": nm.spec(8)}
DATA = (nm.spec((30, 4)), nm.spec(30))


def distances(points, weights):
    def energy(p):
        d = points - p
        return nnp.sum(weights * nnp.exp(-nnp.sum(d * d, axis=-1)))

    return nm.vmap(energy)(points).sum()


def chain(x):
    return nnp.sum((x[1:] - x[:-1] ** 2) ** 2)


def arrow(x):
    return nnp.concatenate([(nnp.sum(x) * x[0])[None], x[0] * x[1:] + x[1:] ** 2])


def long(x, steps=900):
    """A chain of steps of two kinds in a random order, which `nabla-roll-loops` cannot write as a loop."""
    rng = random.Random(0)
    for _ in range(steps):
        x = x * x + 0.5 * nnp.maximum(x, 0.25) if rng.random() < 0.5 else 0.5 * nnp.maximum(x, 0.25) - x * x
    return nnp.sum(x)
