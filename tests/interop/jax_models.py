"""Modules of Flax NNX and Equinox, losses and steps of Optax, solves of Diffrax: functions of weights and inputs, in f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import optax
import optimistix
from flax import nnx

RNG = np.random.default_rng(0)
F64 = jnp.float64
Case = Callable[[], tuple[Callable[..., Any], list[np.ndarray], Sequence[Any]]]


def _x(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _u(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape)


def _plain(f: Callable[..., Any], *inputs: Any) -> Case:
    return lambda: (lambda _, *xs: f(*xs), [], inputs)


def _nnx(make: Callable[[Any], Any], *inputs: Any, call: Callable[..., Any] = lambda m, *xs: m(*xs)) -> Case:
    def build() -> Any:
        graph, state = nnx.split(nnx.view(make(nnx.Rngs(0))))
        leaves, tree = jax.tree.flatten(state)
        active = [i for i, a in enumerate(leaves) if jnp.issubdtype(a.dtype, jnp.floating)]

        def f(weights: Any, *xs: Any) -> Any:
            values = list(leaves)
            for i, w in zip(active, weights, strict=True):
                values[i] = w
            return call(nnx.merge(graph, jax.tree.unflatten(tree, values)), *xs)

        return f, [np.asarray(leaves[i], np.float64) for i in active], inputs

    return build


def _eqx(make: Callable[[Any], Any], *inputs: Any, call: Callable[..., Any] = lambda m, *xs: m(*xs)) -> Case:
    def build() -> Any:
        weights, rest = eqx.partition(eqx.nn.inference_mode(make(jax.random.key(0))), eqx.is_inexact_array)
        leaves, tree = jax.tree.flatten(weights)
        f = lambda weights, *xs: call(eqx.combine(jax.tree.unflatten(tree, weights), rest), *xs)  # noqa: E731
        return f, [np.asarray(a, np.float64) for a in leaves], inputs

    return build


def _cell(m: Any, c: Any, h: Any, x: Any) -> Any:
    return m((c, h), x)


_N, _E = nnx, eqx.nn
FLAX: dict[str, Case] = {
    "Linear": _nnx(lambda r: _N.Linear(4, 3, rngs=r, param_dtype=F64), _x(2, 4)),
    "LinearGeneral": _nnx(lambda r: _N.LinearGeneral(4, (2, 3), rngs=r, param_dtype=F64), _x(2, 4)),
    "Einsum": _nnx(lambda r: _N.Einsum("ij,jk->ik", (4, 3), rngs=r, param_dtype=F64), _x(2, 4)),
    "Conv": _nnx(lambda r: _N.Conv(3, 4, (3, 3), strides=2, rngs=r, param_dtype=F64), _x(1, 6, 6, 3)),
    "ConvTranspose": _nnx(lambda r: _N.ConvTranspose(3, 4, (3, 3), strides=2, rngs=r, param_dtype=F64), _x(1, 4, 4, 3)),
    "Embed": _nnx(lambda r: _N.Embed(7, 3, rngs=r, param_dtype=F64), np.array([1, 2, 1])),
    "BatchNorm": _nnx(
        lambda r: _N.BatchNorm(3, rngs=r, param_dtype=F64), _x(4, 3), call=lambda m, x: m(x, use_running_average=True)
    ),
    "BatchNorm in training": _nnx(
        lambda r: _N.BatchNorm(3, rngs=r, param_dtype=F64), _x(4, 3), call=lambda m, x: m(x, use_running_average=False)
    ),
    "LayerNorm": _nnx(lambda r: _N.LayerNorm(3, rngs=r, param_dtype=F64), _x(4, 3)),
    "RMSNorm": _nnx(lambda r: _N.RMSNorm(3, rngs=r, param_dtype=F64), _x(4, 3)),
    "GroupNorm": _nnx(lambda r: _N.GroupNorm(4, num_groups=2, rngs=r, param_dtype=F64), _x(2, 5, 4)),
    "InstanceNorm": _nnx(lambda r: _N.InstanceNorm(4, rngs=r, param_dtype=F64), _x(2, 5, 4)),
    "WeightNorm": _nnx(lambda r: _N.WeightNorm(_N.Linear(4, 3, rngs=r, param_dtype=F64), rngs=r), _x(2, 4)),
    "SpectralNorm": _nnx(
        lambda r: _N.SpectralNorm(_N.Linear(4, 3, rngs=r, param_dtype=F64), rngs=r),
        _x(2, 4),
        call=lambda m, x: m(x, update_stats=False),
    ),
    "Dropout in training": _nnx(lambda r: _N.Dropout(0.5, rngs=r), _x(2, 4), call=lambda m, x: m(x, deterministic=False)),
    "PReLU": _nnx(lambda r: _N.PReLU(0.1, param_dtype=F64), _x(2, 4)),
    "LoRA": _nnx(lambda r: _N.LoRA(4, 2, 3, rngs=r, param_dtype=F64), _x(2, 4)),
    "LoRALinear": _nnx(lambda r: _N.LoRALinear(4, 3, lora_rank=2, rngs=r, param_dtype=F64), _x(2, 4)),
    "MultiHeadAttention": _nnx(lambda r: _N.MultiHeadAttention(2, 8, decode=False, rngs=r, param_dtype=F64), _x(2, 3, 8)),
    **{
        name: _nnx(lambda r, n=name: getattr(_N, n)(3, 4, rngs=r, param_dtype=F64), _x(2, 4), _x(2, 4), _x(2, 3), call=_cell)
        for name in ("LSTMCell", "OptimizedLSTMCell")
    },
    **{
        name: _nnx(lambda r, n=name: getattr(_N, n)(3, 4, rngs=r, param_dtype=F64), _x(2, 4), _x(2, 3))
        for name in ("GRUCell", "SimpleCell")
    },
    "RNN": _nnx(lambda r: _N.RNN(_N.GRUCell(3, 4, rngs=r, param_dtype=F64)), _x(2, 5, 3)),
    "Bidirectional": _nnx(
        lambda r: _N.Bidirectional(*(_N.RNN(_N.GRUCell(3, 4, rngs=r, param_dtype=F64)) for _ in range(2)), rngs=r), _x(2, 5, 3)
    ),
    "Sequential": _nnx(
        lambda r: _N.Sequential(_N.Linear(4, 8, rngs=r, param_dtype=F64), _N.gelu, _N.Linear(8, 2, rngs=r, param_dtype=F64)),
        _x(2, 4),
    ),
    **{name: _plain(lambda x, n=name: getattr(_N, n)(x, (2, 2), (2, 2)), _x(1, 4, 4, 2)) for name in ("avg_pool", "max_pool")},
    **{
        name: _plain(getattr(_N, name), _x(3, 4))
        for name in (
            "celu",
            "elu",
            "gelu",
            "glu",
            "hard_sigmoid",
            "hard_silu",
            "hard_tanh",
            "leaky_relu",
            "log_sigmoid",
            "log_softmax",
            "relu",
            "relu6",
            "selu",
            "sigmoid",
            "silu",
            "soft_sign",
            "softmax",
            "softplus",
            "standardize",
            "tanh",
        )
    },
}
EQUINOX: dict[str, Case] = {
    "Linear": _eqx(lambda k: _E.Linear(4, 3, key=k), _x(4)),
    "MLP": _eqx(lambda k: _E.MLP(4, 2, 8, 2, jnp.tanh, key=k), _x(4)),
    **{f"Conv{r}d": _eqx(lambda k, r=r: getattr(_E, f"Conv{r}d")(2, 3, 2, key=k), _x(2, *[4] * r)) for r in (1, 2, 3)},
    **{
        f"ConvTranspose{r}d": _eqx(lambda k, r=r: getattr(_E, f"ConvTranspose{r}d")(2, 3, 2, 2, key=k), _x(2, *[3] * r))
        for r in (1, 2, 3)
    },
    **{
        f"{kind}Pool{r}d": _eqx(lambda k, n=kind, r=r: getattr(_E, f"{n}Pool{r}d")(2, 2), _x(2, *[4] * r))
        for kind in ("Avg", "Max")
        for r in (1, 2, 3)
    },
    **{
        f"Adaptive{kind}Pool2d": _eqx(lambda k, n=kind: getattr(_E, f"Adaptive{n}Pool2d")(2), _x(2, 5, 5))
        for kind in ("Avg", "Max")
    },
    "Embedding": _eqx(lambda k: _E.Embedding(7, 3, key=k), np.array(2)),
    "GRUCell": _eqx(lambda k: _E.GRUCell(3, 4, key=k), _x(3), _x(4)),
    "LSTMCell": _eqx(lambda k: _E.LSTMCell(3, 4, key=k), _x(3), _x(4), _x(4), call=lambda m, x, h, c: m(x, (h, c))),
    "LayerNorm": _eqx(lambda k: _E.LayerNorm(4), _x(4)),
    "RMSNorm": _eqx(lambda k: _E.RMSNorm(4), _x(4)),
    "GroupNorm": _eqx(lambda k: _E.GroupNorm(2, 4), _x(4, 3)),
    "MultiheadAttention": _eqx(lambda k: _E.MultiheadAttention(2, 8, key=k), _x(3, 8), call=lambda m, x: m(x, x, x)),
    "RotaryPositionalEmbedding": _eqx(lambda k: _E.RotaryPositionalEmbedding(4), _x(3, 4)),
    "PReLU": _eqx(lambda k: _E.PReLU(0.2), _x(4)),
    "Dropout in training": _eqx(lambda k: _E.Dropout(0.5), _x(4), call=lambda m, x: m(x, key=jax.random.key(1), inference=False)),
    "WeightNorm": _eqx(lambda k: _E.WeightNorm(_E.Linear(4, 3, key=k)), _x(4)),
    "Sequential": _eqx(lambda k: _E.Sequential([_E.Linear(4, 3, key=k), _E.Lambda(jax.nn.softplus)]), _x(4)),
}

_L, _LABELS, _SIGNS = optax.losses, np.array([0, 2, 1, 1]), np.array([1.0, -1, 1, -1])


def _steps(optimizer: Any) -> Callable[..., Any]:
    def two(p: Any, *gradients: Any) -> Any:
        state = optimizer.init(p)
        for g in gradients:
            updates, state = optimizer.update(g, state, p)
            p = optax.apply_updates(p, updates)
        return p

    return two


OPTAX: dict[str, Case] = {
    **{
        name: _plain(getattr(_L, name), _x(4, 3), _x(4, 3))
        for name in (
            "squared_error",
            "l2_loss",
            "huber_loss",
            "log_cosh",
            "cosine_distance",
            "cosine_similarity",
            "kl_divergence_with_log_targets",
        )
    },
    **{
        name: _plain(getattr(_L, name), _x(4, 3), _u(4, 3))
        for name in (
            "sigmoid_binary_cross_entropy",
            "sigmoid_focal_loss",
            "softmax_cross_entropy",
            "safe_softmax_cross_entropy",
            "poly_loss_cross_entropy",
            "kl_divergence",
            "convex_kl_divergence",
            "generalized_kl_divergence",
            "ranking_softmax_loss",
        )
    },
    **{
        name: _plain(lambda x, n=name: getattr(_L, n)(x, _LABELS), _x(4, 3))
        for name in (
            "softmax_cross_entropy_with_integer_labels",
            "multiclass_hinge_loss",
            "multiclass_perceptron_loss",
            "multiclass_sparsemax_loss",
        )
    },
    **{name: _plain(lambda x, n=name: getattr(_L, n)(x, _SIGNS), _x(4)) for name in ("hinge_loss", "perceptron_loss")},
    "sparsemax_loss": _plain(lambda x: _L.sparsemax_loss(x, np.array([1, 0, 1, 0])), _x(4)),
    "fenchel_young_loss": _plain(_L.make_fenchel_young_loss(max_fun=jax.nn.logsumexp), _x(4, 3), _u(4, 3)),
    "ctc_loss": _plain(lambda x: _L.ctc_loss(x, np.zeros((1, 4)), np.array([[1, 2]]), np.zeros((1, 2))), _x(1, 4, 3)),
    "ntxent": _plain(lambda x: _L.ntxent(x, np.array([0, 0, 1, 1])), _x(4, 3)),
    "triplet_margin_loss": _plain(_L.triplet_margin_loss, _x(4, 3), _x(4, 3), _x(4, 3)),
    "smooth_labels": _plain(lambda x: _L.smooth_labels(x, 0.1), _u(4, 3)),
    **{
        f"steps of {name}": _plain(_steps(getattr(optax, name)(0.1)), _x(4), _x(4), _x(4))
        for name in ("sgd", "adam", "adamw", "rmsprop", "lion", "adagrad")
    },
}


def _field(t: Any, y: Any, a: Any) -> Any:
    return jnp.stack([y[1], a * (1 - y[0] ** 2) * y[1] - y[0]])


def solve(solver: Any, adjoint: Any, controller: Any = None, max_steps: int = 16, times: Any = None) -> Callable[..., Any]:
    """Van der Pol's oscillator at time 1/2, or at others, as a function of where it begins and of its damping."""

    def end(y0: Any, a: Any) -> Any:
        options = {} if controller is None else {"stepsize_controller": controller}
        options |= {"adjoint": adjoint, "max_steps": max_steps, "saveat": diffrax.SaveAt(ts=times, t1=times is None)}
        return diffrax.diffeqsolve(diffrax.ODETerm(_field), solver, 0.0, 0.5, 0.1, y0, args=a, **options).ys

    return end


def noisy(y0: Any) -> Any:
    """A stochastic equation, along a path that a key draws."""
    path = diffrax.VirtualBrownianTree(0.0, 0.5, 1e-2, (), jax.random.key(0))
    drift, noise = diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.3 * jnp.cos(y), path)
    terms = diffrax.MultiTerm(drift, noise)
    return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 0.5, 0.1, y0, max_steps=8, adjoint=diffrax.DirectAdjoint()).ys


_POINT = (np.array([0.7, -0.4]), np.array(0.7))
DIFFRAX: dict[str, Case] = {
    "Euler": _plain(solve(diffrax.Euler(), diffrax.DirectAdjoint()), *_POINT),
    "Tsit5": _plain(solve(diffrax.Tsit5(), diffrax.DirectAdjoint()), *_POINT),
    "Tsit5 of chosen steps": _plain(solve(diffrax.Tsit5(), diffrax.DirectAdjoint(), diffrax.PIDController(1e-4, 1e-6)), *_POINT),
    "Kvaerno5": _plain(solve(diffrax.Kvaerno5(), diffrax.DirectAdjoint(), diffrax.PIDController(1e-4, 1e-6), max_steps=4), *_POINT),
    "Kvaerno3": _plain(solve(diffrax.Kvaerno3(), diffrax.DirectAdjoint(), diffrax.PIDController(1e-4, 1e-6), max_steps=4), *_POINT),
    "ImplicitEuler": _plain(
        solve(diffrax.ImplicitEuler(root_finder=diffrax.VeryChord(1e-10, 1e-10)), diffrax.DirectAdjoint(), max_steps=6), *_POINT
    ),
    "ReversibleHeun": _plain(solve(diffrax.ReversibleHeun(), diffrax.DirectAdjoint(), max_steps=6), *_POINT),
    "Tsit5 at times in between": _plain(
        solve(diffrax.Tsit5(), diffrax.DirectAdjoint(), max_steps=6, times=np.array([0.05, 0.2, 0.33, 0.5])), *_POINT
    ),
    "Euler, checkpointed": _plain(solve(diffrax.Euler(), diffrax.RecursiveCheckpointAdjoint()), *_POINT),
    "Heun along a path of noise": _plain(noisy, np.array(0.6)),
}


def linear(solver: Any, operator: Callable[[Any], Any] = lineax.MatrixLinearOperator) -> Case:
    """A system of four equations as a function of its matrix and its right-hand side."""
    rng = np.random.default_rng(0)
    at = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=4)
    return _plain(lambda m, b: lineax.linear_solve(operator(m), b, solver).value, *at)


def _symmetric(m: Any) -> Any:
    return lineax.MatrixLinearOperator(m @ m.T + jnp.eye(4), lineax.positive_semidefinite_tag)


LINEAX: dict[str, Case] = {
    "Auto": linear(lineax.AutoLinearSolver(True)),
    "LU": linear(lineax.LU()),
    "QR": linear(lineax.QR()),
    "Cholesky": linear(lineax.Cholesky(), _symmetric),
    "CG": linear(lineax.CG(1e-12, 1e-12), _symmetric),
    "GMRES": linear(lineax.GMRES(1e-12, 1e-12)),
    "Diagonal": linear(lineax.Diagonal(well_posed=True), lambda m: lineax.DiagonalLinearOperator(m.diagonal())),
    "Tridiagonal": linear(
        lineax.Tridiagonal(), lambda m: lineax.TridiagonalLinearOperator(m.diagonal(), m.diagonal(1), m.diagonal(-1))
    ),
}


def _found(find: Callable[..., Any], solver: Any, f: Callable[..., Any]) -> Case:
    """The solution that a solver of Optimistix finds for a matrix and a vector, from zeros."""
    rng = np.random.default_rng(0)
    at = rng.normal(size=(4, 4)) + 4 * np.eye(4), rng.normal(size=4)
    return _plain(lambda m, b: find(f, solver, jnp.zeros(4), (m, b)).value, *at)


def _residual(y: Any, a: Any) -> Any:
    return a[0] @ y - a[1] + 0.1 * y**2


def _energy(y: Any, a: Any) -> Any:
    return ((a[0] @ y - a[1]) ** 2).sum() + 0.1 * (y**4).sum()


def _crossing(a: Any, b: Any) -> Any:
    """Where a cubic crosses a level."""
    solver = optimistix.Bisection(1e-12, 1e-12)
    return optimistix.root_find(lambda y, at: y**3 + at[0] * y - at[1], solver, 0.5, (a, b), {"lower": 0.0, "upper": 2.0}).value


OPTIMISTIX: dict[str, Case] = {
    "Newton": _found(optimistix.root_find, optimistix.Newton(1e-10, 1e-10), lambda y, a: a[0] @ y + 0.1 * jnp.tanh(y) - a[1]),
    "Chord": _found(optimistix.root_find, optimistix.Chord(1e-10, 1e-10), lambda y, a: a[0] @ y + 0.1 * jnp.tanh(y) - a[1]),
    "FixedPointIteration": _found(
        optimistix.fixed_point, optimistix.FixedPointIteration(1e-12, 1e-12), lambda y, a: 0.05 * a[0] @ jnp.tanh(y) + a[1]
    ),
    **{
        name: _found(optimistix.least_squares, getattr(optimistix, name)(1e-10, 1e-10), _residual)
        for name in ("GaussNewton", "LevenbergMarquardt", "IndirectLevenbergMarquardt", "Dogleg")
    },
    **{name: _found(optimistix.minimise, getattr(optimistix, name)(1e-9, 1e-9), _energy) for name in ("BFGS", "NonlinearCG")},
    "Bisection": _plain(_crossing, np.array(0.7), np.array(2.0)),
}
# In these JAX and Flax compute in 32 bits whatever the weights are.
NARROW = {"MultiHeadAttention", "SimpleCell"}
