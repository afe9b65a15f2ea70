"""Models of packages written for JAX as artifacts: value, gradient and Hessian-vector product, which run without Python.

    python examples/jax_packages.py flax equinox numpyro diffrax
    python examples/jax_packages.py flax equinox numpyro diffrax --jax     the same functions by jax.jit

The packages import `nabla_mlir.jax` under the name `jax`. A line shows the value, the lengths of the gradient and of a product,
and the microseconds of a call of both functions.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
ROWS = np.linspace(-1, 1, 64, dtype=np.float32).reshape(32, 2)
TARGETS = ROWS[:, 0] * ROWS[:, 1]

Program = tuple[Callable[[Any], Any], Any]  # a function of parameters, and the parameters


def numbers(tree: Any) -> Any:
    """Parameters of the same structure that do not depend on a random generator."""
    import jax

    return jax.tree.map(lambda x: np.sin(np.arange(x.size, dtype=np.float32)).reshape(x.shape), tree)


def flax() -> Program:
    """The mean squared error of a network of Flax with weight decay by Optax."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    net = nn.Sequential([nn.Dense(16), nn.tanh, nn.Dense(1)])
    parameters = numbers(net.init(jax.random.key(0), ROWS))

    def loss(p: Any) -> Any:
        return jnp.mean(optax.l2_loss(net.apply(p, ROWS)[:, 0], TARGETS)) + 1e-3 * optax.global_norm(p) ** 2

    return loss, parameters


def equinox() -> Program:
    """The mean squared error of a network of Equinox."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    parameters, rest = eqx.partition(eqx.nn.MLP(2, 1, 16, 2, activation=jnp.tanh, key=jax.random.key(0)), eqx.is_array)

    def loss(p: Any) -> Any:
        return jnp.mean((jax.vmap(eqx.combine(p, rest))(ROWS)[:, 0] - TARGETS) ** 2)

    return loss, numbers(parameters)


def numpyro() -> Program:
    """The negative log density of the eight schools, a model of NumPyro, in unconstrained parameters."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def schools() -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        eta = numpyro.sample("eta", dist.Normal(jnp.zeros(8), 1))
        numpyro.sample("effects", dist.Normal(mu + tau * eta, ERRORS), obs=EFFECTS)

    def loss(p: Any) -> Any:
        tau = jnp.exp(p["log_tau"])
        return -log_density(schools, (), {}, {"mu": p["mu"], "tau": tau, "eta": p["eta"]})[0] - p["log_tau"]

    return loss, {"mu": np.array(4, np.float32), "log_tau": np.array(1, np.float32), "eta": np.linspace(-1, 1, 8, dtype=np.float32)}


def diffrax() -> Program:
    """The distance of the end of a neural differential equation, solved by Diffrax, from a target."""
    import diffrax
    import jax.numpy as jnp

    def loss(w: Any) -> Any:
        end = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, _: jnp.tanh(w @ y)),
            diffrax.Tsit5(),
            0.0,
            1.0,
            0.05,
            jnp.ones(3),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=32,
            throw=False,  # to raise, a compiled program would have to call Python
        ).ys[-1]
        return jnp.sum((end - jnp.array([0.0, 1.0, 2.0])) ** 2)

    return loss, np.sin(np.arange(9, dtype=np.float32)).reshape(3, 3)


def functions(loss: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """The entry points: the value with the gradient, and a product of the Hessian."""
    import jax

    return {"gradient": jax.value_and_grad(loss), "product": lambda p, v: jax.jvp(jax.grad(loss), (p,), (v,))[1]}


def artifact(name: str, path: Path) -> Any:
    """Compiles a program to a file, and loads it; the machine that loads it needs NumPy and iree-base-runtime."""
    import nabla_mlir as nm

    loss, p = globals()[name]()
    entries = functions(loss)
    traced = nm.module(gradient=nm.trace(entries["gradient"], p), product=nm.trace(entries["product"], p, p))
    traced.lower().compile(nm.CPU("host")).save(path)
    return nm.load(path), p


def leaves(tree: Any) -> list[np.ndarray]:
    """The arrays of nested containers."""
    import jax

    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def length(tree: Any) -> float:
    """The Euclidean norm of all arrays together."""
    return float(np.sqrt(sum((x.astype(np.float64) ** 2).sum() for x in leaves(tree))))


def microseconds(function: Callable[[], Any]) -> float:
    """The shortest of some calls."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        leaves(function())
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def main(names: list[str], is_jax: bool) -> None:
    """Prints a line for each program."""
    if not is_jax:
        importlib.import_module("nabla_mlir.jax").install()
    import jax

    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if is_jax:
                loss, p = globals()[name]()
                gradient, product = (jax.jit(f) for f in functions(loss).values())
            else:
                module, p = artifact(name, Path(folder, name))
                gradient, product = module.gradient, module.product
            value, slope = gradient(p)
            print(
                f"{name:10} value {float(value):.6g}  gradient {length(slope):.6g}  product {length(product(p, p)):.6g}  "
                f"{microseconds(lambda: gradient(p)):5.0f} us  {microseconds(lambda: product(p, p)):5.0f} us"  # noqa: B023
            )


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if not name.startswith("-")], "--jax" in sys.argv)
