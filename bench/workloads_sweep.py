"""The second set of workloads: HVPs of many kinds and unusual sizes, to find problems that the first set does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import workloads_networks as net
from workload import Function, Workload, dense, integers, normal
from workloads import mixture, rosenbrock
from workloads_dynamics import DYNAMICS
from workloads_science import gaussian_process


def _likelihood(term: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Function]:
    """A generalised linear model: the mean over rows of a term of score and target, plus a small ridge penalty."""

    def factory(fw: Any) -> Function:
        def loss(w: Any, rows: Any, targets: Any) -> Any:
            return fw.np.mean(term(fw, rows @ w, targets)) + 0.005 * fw.np.sum(w * w)

        return loss

    return factory


def _rows(n: int, m: int, counts: bool = False) -> Callable[[], tuple[Any, ...]]:
    targets = lambda: np.abs(normal(n, seed=1)).round() if counts else normal(n, seed=1)  # noqa: E731
    return lambda: (normal(m, scale=m**-0.5), normal(n, m), targets())


def _huber(fw: Any, score: Any, target: Any) -> Any:
    error = fw.np.abs(score - target)
    return fw.np.where(error <= 1.0, 0.5 * error * error, error - 0.5)


def softmax_regression(fw: Any) -> Function:
    return lambda params, x, labels: net.cross_entropy(fw, x @ params["w"] + params["b"], labels)


def cox(fw: Any) -> Function:
    def loss(w: Any, rows: Any, events: Any) -> Any:
        score = rows @ w  # sorted by time, the longest first
        return -fw.np.sum(events * (score - fw.np.log(fw.np.cumsum(fw.np.exp(score))))) / rows.shape[0]

    return loss


def factorisation(fw: Any) -> Function:
    def loss(params: Any, table: Any, known: Any) -> Any:
        error = known * (params["u"] @ params["v"].T + params["a"][:, None] + params["b"][None] - table)
        return fw.np.sum(error * error) + 0.1 * (fw.np.sum(params["u"] ** 2) + fw.np.sum(params["v"] ** 2))

    return loss


def pca(fw: Any) -> Function:
    def loss(w: Any, x: Any) -> Any:
        z = x @ w
        return fw.np.mean((z @ w.T - x) ** 2)

    return loss


def kernel_ridge(fw: Any) -> Function:
    def loss(params: Any, x: Any, y: Any) -> Any:
        z = x * fw.np.exp(params["scales"])
        differences = fw.np.sum((z[:, None] - z[None]) ** 2, axis=-1)
        fit = fw.np.exp(-0.5 * differences) @ params["alpha"]
        return fw.np.mean((fit - y) ** 2) + 0.01 * fw.np.sum(params["alpha"] * fit)

    return loss


def springs(fw: Any) -> Function:
    def energy(x: Any, a: Any, b: Any, rest: Any) -> Any:
        differences = x[a] - x[b]
        length = fw.np.sqrt(fw.np.sum(differences * differences, axis=1) + 1e-9)
        return 0.5 * fw.np.sum((length - rest) ** 2)

    return energy


def _springs() -> tuple[Any, ...]:
    ends = integers(500, 2, 2000)
    return normal(500, 3), ends[0], ends[1], np.abs(normal(2000))


def lennard_jones(fw: Any) -> Function:
    def energy(x: Any) -> Any:
        differences = x[:, None] - x[None]
        square = fw.np.sum(differences * differences, axis=-1) + 1e3 * fw.np.eye(x.shape[0], dtype=x.dtype)
        inverse = 1.0 / square**3
        return 2.0 * fw.np.sum(inverse * inverse - inverse)

    return energy


def _atoms() -> tuple[Any, ...]:
    grid = np.stack(np.meshgrid(*[np.arange(5)] * 3), -1).reshape(-1, 3) * 1.2
    return (grid.astype(np.float32) + normal(125, 3, scale=0.05),)


def heat(fw: Any) -> Function:
    """Finds the conductivity of a rod from its temperature after 100 explicit steps."""

    def loss(conductivity: Any, start: Any, wanted: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            flux = fw.nn.sigmoid(conductivity) * (u[1:] - u[:-1])
            change = fw.np.concatenate([flux[:1], flux[1:] - flux[:-1], -flux[-1:]])
            return u + 0.4 * change, None

        u, _ = fw.scan(step, start, None, length=100)
        return fw.np.sum((u - wanted) ** 2) + 0.01 * fw.np.sum((conductivity[1:] - conductivity[:-1]) ** 2)

    return loss


def surface(fw: Any) -> Function:
    """The area of the graph of a function on a grid."""

    def area(u: Any) -> Any:
        right, up = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
        return fw.np.sum(fw.np.sqrt(1 + 100 * (right**2 + up**2)))

    return area


def rayleigh(fw: Any) -> Function:
    return lambda x, a: (x @ (a @ x)) / (x @ x)


def phase(fw: Any) -> Function:
    return lambda x, a, y: fw.np.mean(((a @ x) ** 2 - y) ** 2)


def rastrigin(fw: Any) -> Function:
    return lambda x: 10.0 * x.shape[0] + fw.np.sum(x * x - 10.0 * fw.np.cos(2 * np.pi * x))


def tucker(fw: Any) -> Function:
    def loss(params: Any, data: Any) -> Any:
        fit = fw.np.einsum("abc,ia,jb,kc->ijk", params["core"], params["u"], params["v"], params["w"])
        return fw.np.sum((fit - data) ** 2)

    return loss


def _tensor() -> tuple[Any, ...]:
    params = {"core": normal(4, 5, 6), "u": normal(20, 4), "v": normal(24, 5), "w": normal(28, 6)}
    return params, normal(20, 24, 28)


def transport(fw: Any) -> Function:
    """Entropic optimal transport between two clouds of points, 20 Sinkhorn steps."""

    def loss(x: Any, y: Any) -> Any:
        cost = fw.np.sum((x[:, None] - y[None]) ** 2, axis=-1)

        def step(g: Any, _: Any) -> Any:
            f = -fw.logsumexp(g[None] - cost, axis=1)
            return -fw.logsumexp(f[:, None] - cost, axis=0), None

        g, _ = fw.scan(step, fw.np.zeros(y.shape[0], y.dtype), None, length=20)
        f = -fw.logsumexp(g[None] - cost, axis=1)
        return fw.np.sum(fw.np.exp(f[:, None] + g[None] - cost) * cost) / x.shape[0]

    return loss


def pairs(fw: Any) -> Function:
    """The Rosenbrock function of pairs; the elements of a pair are neighbours."""
    return lambda x: fw.np.sum(100 * (x[1::2] - x[0::2] ** 2) ** 2 + (1 - x[0::2]) ** 2)


def option(fw: Any) -> Function:
    """The price of an option, with the logistic approximation of the normal distribution."""

    def price(market: Any, strike: Any) -> Any:
        spot, volatility, rate, time = market[0], market[1], market[2], market[3]
        spread = volatility * fw.np.sqrt(time)
        high = (fw.np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / spread
        chance = lambda z: 1 / (1 + fw.np.exp(-1.702 * z))  # noqa: E731
        return spot * chance(high) - strike * fw.np.exp(-rate * time) * chance(high - spread)

    return price


def _clusters(points: int, axes: int, components: int) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        roots = normal(components, axes, axes, scale=0.3) + np.eye(axes, dtype=np.float32)
        params = {
            "means": normal(components, axes),
            "roots": roots,
            "weights": normal(components),
            "diagonal": np.exp(normal(components, axes, scale=0.1)),
        }
        return params, normal(points, axes, seed=1)

    return inputs


SWEEP = (
    *DYNAMICS,
    Workload("mixture-20", "Gaussian mixture 500x20, 50", mixture, _clusters(500, 20, 50)),
    Workload("mixture-2", "Gaussian mixture 2000x2, 5", mixture, _clusters(2000, 2, 5)),
    Workload("pairs", "Rosenbrock of pairs, n=10⁵", pairs, lambda: (normal(100000, scale=0.5),)),
    Workload(
        "options",
        "Hessians of 5000 options",
        option,
        mapped=True,
        inputs=lambda: (np.abs(normal(5000, 4, scale=0.1)) + np.array([1, 0.2, 0.02, 1], np.float32), np.float32(1)),
    ),
    Workload(
        "softmax",
        "softmax regression 2000x50, 10",
        softmax_regression,
        lambda: (dense(50, 10), normal(2000, 50), integers(10, 2000)),
    ),
    Workload("poisson", "Poisson regression 5000x100", _likelihood(lambda fw, s, y: fw.np.exp(s) - y * s), _rows(5000, 100, True)),
    Workload(
        "negative-binomial",
        "negative binomial 3000x60",
        _likelihood(lambda fw, s, y: (y + 2.0) * fw.np.log(1 + 0.5 * fw.np.exp(s)) - y * s),
        _rows(3000, 60, True),
    ),
    Workload("huber", "Huber regression 3000x80", _likelihood(_huber), _rows(3000, 80)),
    Workload(
        "student",
        "Student-t regression 4000x30",
        _likelihood(lambda fw, s, y: 2.5 * fw.np.log1p((s - y) ** 2 / 4)),
        _rows(4000, 30),
    ),
    Workload("odd-logistic", "logistic 1797x65", _likelihood(lambda fw, s, y: fw.nn.softplus(-y * s)), _rows(1797, 65)),
    Workload("wide-logistic", "logistic 100x5000", _likelihood(lambda fw, s, y: fw.nn.softplus(-y * s)), _rows(100, 5000)),
    Workload(
        "cox", "Cox model 1000x40", cox, lambda: (normal(40, scale=0.1), normal(1000, 40), (normal(1000) > 0) + np.float32(0))
    ),
    Workload(
        "factorisation",
        "matrix factorisation 300x200, 10",
        factorisation,
        lambda: (
            {"u": normal(300, 10), "v": normal(200, 10), "a": normal(300), "b": normal(200)},
            normal(300, 200),
            (normal(300, 200, seed=2) > 0.5) + np.float32(0),
        ),
    ),
    Workload("pca", "PCA 1000x100, 8", pca, lambda: (normal(100, 8, scale=0.1), normal(1000, 100))),
    Workload(
        "kernel-ridge",
        "kernel ridge n=200",
        kernel_ridge,
        lambda: ({"scales": normal(5, scale=0.1), "alpha": normal(200, scale=0.1)}, normal(200, 5), normal(200, seed=1)),
    ),
    Workload(
        "autoencoder",
        "autoencoder 256-64, batch 100",
        net.autoencoder,
        lambda: ({"in": dense(256, 64), "out": dense(64, 256)}, np.abs(normal(100, 256))),
    ),
    Workload(
        "gelu", "gelu and layer norm 64-128-128-10, batch 256", net.layers("gelu", "layer"), net.layer_inputs(256, 64, 128, 128, 10)
    ),
    Workload(
        "relu", "relu and batch norm 50-100-100-10, batch 200", net.layers("relu", "batch"), net.layer_inputs(200, 50, 100, 100, 10)
    ),
    Workload("deep", "tanh, six layers of 32, batch 64", net.layers("tanh"), net.layer_inputs(64, 20, 32, 32, 32, 32, 32, 5)),
    Workload("large", "relu 512-512-512-10, batch 256", net.layers("relu"), net.layer_inputs(256, 512, 512, 512, 10)),
    Workload("tiny", "tanh 4-8-3, batch 16", net.layers("tanh"), net.layer_inputs(16, 4, 8, 3)),
    Workload("strided", "strided 3x3 convolutions 8x32x32", net.images("strided"), net.image_inputs(8, 32, 16)),
    Workload("max-pool", "5x5 convolutions, max pool 8x28x28", net.images("max"), net.image_inputs(8, 28, 8, 5)),
    Workload("mean-pool", "3x3 convolutions, mean pool 8x32x32", net.images("mean"), net.image_inputs(8, 32, 16)),
    Workload("separable", "separable convolution 8x24x24", net.images("separable"), net.separable_inputs),
    Workload("signals", "1-D convolutions 16x128", net.images("strided"), net.signal_inputs),
    Workload("lstm", "LSTM 30 steps, 8x32", net.gated("lstm"), net.gated_inputs(30, 8, 16, 32, 4)),
    Workload("gru", "GRU 40 steps, 16x24", net.gated("gru"), net.gated_inputs(40, 16, 8, 24, 3)),
    Workload("springs", "spring network 500, 2000", springs, _springs),
    Workload("lennard-jones", "Lennard-Jones 125", lennard_jones, _atoms),
    Workload("heat", "heat equation, 64 x 100 steps", heat, lambda: (normal(63), normal(64), normal(64, seed=1))),
    Workload("surface", "minimal surface 64x64", surface, lambda: (normal(64, 64, scale=0.1),)),
    Workload("embedding", "embedding 1000x32, 64x20", net.embedding, net.embedding_inputs),
    Workload("rayleigh", "Rayleigh quotient 500", rayleigh, lambda: (normal(500), normal(500, 500))),
    Workload("phase", "phase retrieval 1000x100", phase, lambda: (normal(100), normal(1000, 100), np.abs(normal(1000)))),
    Workload("rastrigin", "Rastrigin n=10⁵", rastrigin, lambda: (normal(100000),)),
    Workload("rosenbrock-100", "Rosenbrock n=100", rosenbrock, lambda: (normal(100, scale=0.5),)),
    Workload("rosenbrock-1e5", "Rosenbrock n=10⁵", rosenbrock, lambda: (normal(100000, scale=0.5),)),
    Workload("tucker", "Tucker decomposition 20x24x28", tucker, _tensor),
    Workload(
        "graph",
        "graph convolution 200",
        net.graph,
        lambda: ({"in": dense(50, 32), "out": dense(32, 7)}, normal(200, 200, scale=0.07), normal(200, 50), integers(7, 200)),
    ),
    Workload("transport", "optimal transport 64x64, 20 steps", transport, lambda: (normal(64, 3), normal(64, 3, seed=1))),
    Workload(
        "contrast",
        "contrastive loss 128x64",
        net.contrast,
        lambda: ({"w": normal(64, 32, scale=0.15)}, normal(128, 64), normal(128, 64, seed=1)),
    ),
    Workload(
        "neural-ode",
        "neural ODE, 20 steps",
        net.neural_ode,
        lambda: ({"in": dense(8, 32), "out": dense(32, 8)}, normal(32, 8), normal(32, 8, seed=1)),
    ),
    Workload("heads", "three heads of attention 8x32x48", net.heads, net.head_inputs),
    Workload(
        "process-64",
        "Gaussian process, n=64",
        gaussian_process,
        lambda: (
            {"scales": normal(6, scale=0.1) + np.float32(0.5), "noise": np.float32(-1), "height": np.float32(0.1)},
            normal(64, 6),
            normal(64, seed=1),
        ),
    ),
)
