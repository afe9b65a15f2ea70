"""Packages written for JAX on `nabla_mlir.jax.install()`: each in a process without JAX, with the smallest example's value."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = (Path(__file__).resolve().parents[2] / "examples" / "jax_packages").with_suffix(".py")

_START = """
import numpy as np
import nabla_mlir.jax
nabla_mlir.jax.install()
import jax, jax.numpy as jnp
def check(got, expected, tolerance): np.testing.assert_allclose(np.asarray(got, float), expected, atol=tolerance)
"""
_END = """
import sys
assert jax is nabla_mlir.jax and not any(name.startswith("jaxlib") for name in sys.modules)
"""

PROGRAMS = {
    "optax": """
import optax
p = {'w': jnp.ones(3)}
opt = optax.adam(0.1)
s = opt.init(p)
for _ in range(100):
    g = jax.grad(lambda p: jnp.sum((p['w'] - jnp.arange(3.0)) ** 2))(p)
    u, s = opt.update(g, s, p)
    p = optax.apply_updates(p, u)
check(p['w'], [0, 1, 2], 0.1)
""",
    "equinox": """
import equinox as eqx
m = eqx.nn.MLP(2, 1, 8, 2, key=jax.random.PRNGKey(0))
@eqx.filter_jit
def step(m, x):
    v, g = eqx.filter_value_and_grad(lambda m: jnp.mean(jax.vmap(m)(x) ** 2))(m)
    return v, eqx.apply_updates(m, jax.tree.map(lambda g: -0.1 * g, g))
values = []
for _ in range(4):
    v, m = step(m, jnp.ones((4, 2)))
    values.append(float(v))
assert values[-1] < values[0]
""",
    "flax.linen": """
import flax.linen as nn
m = nn.Dense(3)
v = m.init(jax.random.key(0), jnp.ones((1, 2)))
check(jax.grad(lambda v: jnp.sum(m.apply(v, jnp.ones((1, 2)))))(v)['params']['bias'], [1, 1, 1], 1e-6)
""",
    "flax.nnx": """
from flax import nnx
m = nnx.Sequential(nnx.Linear(2, 8, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(8, 1, rngs=nnx.Rngs(1)))
loss, g = nnx.value_and_grad(lambda m: jnp.mean(m(jnp.ones((4, 2))) ** 2))(m)
assert float(loss) >= 0 and jax.tree.leaves(nnx.to_pure_dict(g))
""",
    "lineax": """
import lineax as lx
A = jnp.array([[4.0, 1.0], [1.0, 3.0]])
check(lx.linear_solve(lx.MatrixLinearOperator(A), jnp.array([1.0, 2.0])).value, [0.0909091, 0.6363636], 1e-4)
""",
    "optimistix": """
import optimistix as optx
check(optx.root_find(lambda y, a: y * y - 2.0, optx.Newton(1e-5, 1e-5), jnp.array(1.0)).value, 1.41421356, 1e-4)
""",
    "diffrax": """
import diffrax
s = diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, a: -y), diffrax.Dopri5(), 0.0, 1.0, 0.1, jnp.array(1.0))
check(s.ys, [0.36787944], 1e-4)
""",
    "blackjax": """
import blackjax
k = blackjax.nuts(lambda x: -0.5 * jnp.sum(x**2), step_size=0.5, inverse_mass_matrix=jnp.ones(2))
s, _ = jax.jit(k.step)(jax.random.PRNGKey(1), k.init(jnp.zeros(2)))
assert s.position.shape == (2,) and np.isfinite(s.position).all()
""",
    "numpyro": """
import numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
def model(y): numpyro.sample('y', dist.Normal(numpyro.sample('m', dist.Normal(0.0, 1.0)), 1.0), obs=y)
m = MCMC(NUTS(model), num_warmup=50, num_samples=50, progress_bar=False)
m.run(jax.random.PRNGKey(0), jnp.ones(20))
check(m.get_samples()['m'].mean(), 0.95, 0.3)
""",
    "haiku": """
import haiku as hk
f = hk.without_apply_rng(hk.transform(lambda x: hk.Linear(3)(x)))
p = f.init(jax.random.PRNGKey(0), jnp.ones((1, 2)))
assert f.apply(p, jnp.ones((1, 2))).shape == (1, 3)
""",
    "chex": """
import chex
chex.assert_shape(jnp.ones((2, 3)), (2, 3))
chex.assert_trees_all_close({'a': jnp.ones(2)}, {'a': jnp.ones(2)})
""",
    "distrax": """
import distrax
check(distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Lambda(jnp.exp)).log_prob(jnp.array(2.0)), -1.8523121, 1e-4)
""",
    "tensorflow_probability": """
import tensorflow_probability.substrates.jax as tfp
check(tfp.distributions.Normal(0.0, 1.0).log_prob(jnp.array(1.0)), -1.4189385, 1e-5)
""",
    "jaxopt": """
import jaxopt
r = jaxopt.LBFGS(fun=lambda x: jnp.sum((x - 1.0) ** 2 * jnp.array([1.0, 10.0])), maxiter=50).run(jnp.zeros(2))
check(r.params, [1, 1], 1e-3)
""",
    "tinygp": """
import tinygp
gp = tinygp.GaussianProcess(tinygp.kernels.ExpSquared(1.0), jnp.linspace(0, 1, 3), diag=0.1)
x = np.linspace(0, 1, 3)
K = np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.1 * np.eye(3)
expected = -0.5 * (np.ones(3) @ np.linalg.solve(K, np.ones(3)) + np.linalg.slogdet(K)[1] + 3 * np.log(2 * np.pi))
check(gp.log_probability(jnp.ones(3)), expected, 1e-3)
""",
    "ott": """
from ott.geometry import pointcloud
from ott.solvers import linear
x = jnp.arange(3.0)[:, None]
check(linear.solve(pointcloud.PointCloud(x, x, epsilon=0.1)).matrix.sum(), 1.0, 1e-2)
""",
    "mctx": """
import mctx
root = mctx.RootFnOutput(prior_logits=jnp.zeros((1, 3)), value=jnp.zeros(1), embedding=jnp.zeros(1))
def follow(params, key, action, embedding):
    reward = jnp.where(action == 2, 1.0, 0.0)
    return mctx.RecurrentFnOutput(reward=reward, discount=jnp.zeros(1), prior_logits=jnp.zeros((1, 3)), value=jnp.zeros(1)), embedding
assert int(mctx.gumbel_muzero_policy((), jax.random.PRNGKey(0), root, follow, num_simulations=16).action[0]) == 2
""",
    "evosax": """
from evosax.algorithms import CMA_ES
es = CMA_ES(population_size=8, solution=jnp.zeros(2))
p = es.default_params
s = es.init(jax.random.key(0), jnp.ones(2), p)
for i in range(20):
    x, s = es.ask(jax.random.key(i), s, p)
    s, m = es.tell(jax.random.key(i), x, jnp.sum(x**2, -1), s, p)
assert float(m['best_fitness']) < 0.5
""",
    "rax": """
import rax
check(rax.ndcg_metric(jnp.array([3.0, 2.0, 1.0]), jnp.array([1.0, 0.0, 0.0])), 1.0, 1e-4)
""",
    "jaxtyping": """
from jaxtyping import Array, Float
assert isinstance(jnp.ones((2, 3)), Float[Array, '2 3']) and not isinstance(jnp.ones(2), Float[Array, '2 3'])
""",
    "einops": """
import einops
assert einops.rearrange(jnp.ones((2, 3)), 'a b -> b a').shape == (3, 2)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_package_runs_without_jax(name: str) -> None:
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs the package {package}")
    done = subprocess.run([sys.executable, "-c", _START + PROGRAMS[name] + _END], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_models_of_packages_become_artifacts() -> None:
    """The example's values, gradients and Hessian-vector products are those of JAX."""
    packages = {"flax": "flax optax", "equinox": "equinox", "numpyro": "numpyro", "diffrax": "diffrax"}
    names = [name for name, needed in packages.items() if all(map(importlib.util.find_spec, needed.split()))]
    if not names:
        pytest.skip(f"needs a package among {', '.join(packages)}")

    def lines(*options: str) -> list[list[str]]:
        done = subprocess.run([sys.executable, str(EXAMPLE), *names, *options], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
        return [line.split() for line in done.stdout.splitlines()]

    ours, wanted = lines(), lines("--jax")
    assert [line[0] for line in ours] == names
    for line, other in zip(ours, wanted, strict=True):
        for k in (2, 4, 6):
            assert float(line[k]) == pytest.approx(float(other[k]), rel=1e-4)
