"""A second set of workloads: HVPs of many kinds and odd sizes, to find what the first set does not show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from workload import Function, Workload, dense, normal

_rng = lambda: np.random.default_rng(0)  # noqa: E731
_labels = lambda n, classes: _rng().integers(0, classes, n).astype(np.int32)  # noqa: E731


def _likelihood(term: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Function]:
    """A generalised linear model: the mean over rows of a term in the score and the target, and a small ridge."""

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
    def loss(params: Any, x: Any, labels: Any) -> Any:
        scores = fw.nn.log_softmax(x @ params["w"] + params["b"])
        return -fw.np.mean(fw.np.sum(scores * fw.nn.one_hot(labels, scores.shape[1], dtype=x.dtype), axis=1))

    return loss


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
        apart = fw.np.sum((z[:, None] - z[None]) ** 2, axis=-1)
        fit = fw.np.exp(-0.5 * apart) @ params["alpha"]
        return fw.np.mean((fit - y) ** 2) + 0.01 * fw.np.sum(params["alpha"] * fit)

    return loss


def layers(activation: str, norm: str = "") -> Callable[[Any], Function]:
    def factory(fw: Any) -> Function:
        def loss(params: Any, x: Any, labels: Any) -> Any:
            for layer in params[:-1]:
                x = x @ layer["w"] + layer["b"]
                if norm:
                    axis = -1 if norm == "layer" else 0
                    x = x - fw.np.mean(x, axis=axis, keepdims=True)
                    x = x / fw.np.sqrt(fw.np.mean(x * x, axis=axis, keepdims=True) + 1e-5)
                x = getattr(fw.nn, activation)(x)
            scores = x @ params[-1]["w"] + params[-1]["b"]
            hot = fw.nn.one_hot(labels, scores.shape[1], dtype=x.dtype)
            return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * hot, axis=1))

        return loss

    return factory


def _layers(batch: int, *sizes: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: ([dense(n, m) for n, m in pairwise(sizes)], normal(batch, sizes[0]),
                    _labels(batch, sizes[-1]))  # fmt: skip


def autoencoder(fw: Any) -> Function:
    def loss(params: Any, x: Any) -> Any:
        code = fw.nn.sigmoid(x @ params["in"]["w"] + params["in"]["b"])
        back = fw.nn.sigmoid(code @ params["out"]["w"] + params["out"]["b"])
        return fw.np.mean((back - x) ** 2)

    return loss


def images(kind: str) -> Callable[[Any], Function]:
    def factory(fw: Any) -> Function:
        def loss(params: Any, x: Any, labels: Any) -> Any:
            if kind == "strided":
                x = fw.nn.relu(fw.conv(x, params["a"], 2))
                x = fw.nn.relu(fw.conv(x, params["b"], 2))
            elif kind == "max":
                x = fw.max_pool(fw.nn.relu(fw.conv(x, params["a"])), 2)
                x = fw.max_pool(fw.nn.relu(fw.conv(x, params["b"])), 2)
            elif kind == "mean":
                x = fw.avg_pool(fw.nn.gelu(fw.conv(x, params["a"])), 2)
                x = fw.avg_pool(fw.nn.gelu(fw.conv(x, params["b"])), 2)
            else:
                x = fw.nn.silu(fw.conv(x, params["a"]))
                x = fw.nn.silu(fw.conv(x, params["deep"], groups=x.shape[-1]))
                x = fw.nn.silu(fw.conv(x, params["b"]))
            scores = fw.np.mean(x, axis=tuple(range(1, x.ndim - 1))) @ params["out"]["w"] + params["out"]["b"]
            hot = fw.nn.one_hot(labels, scores.shape[1], dtype=x.dtype)
            return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * hot, axis=1))

        return loss

    return factory


def _images(batch: int, size: int, channels: int, window: int = 3) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        params = {"a": normal(window, window, 3, channels, scale=0.2), "out": dense(2 * channels, 10),
                  "b": normal(window, window, channels, 2 * channels, scale=0.1)}  # fmt: skip
        return params, normal(batch, size, size, 3), _labels(batch, 10)

    return inputs


def _separable() -> tuple[Any, ...]:
    params = {"a": normal(1, 1, 3, 24, scale=0.4), "deep": normal(3, 3, 1, 24, scale=0.3), "b": normal(1, 1, 24, 32, scale=0.2),
              "out": dense(32, 10)}  # fmt: skip
    return params, normal(8, 24, 24, 3), _labels(8, 10)


def _signals() -> tuple[Any, ...]:
    params = {"a": normal(5, 4, 16, scale=0.2), "b": normal(5, 16, 24, scale=0.1), "out": dense(24, 10)}
    return params, normal(16, 128, 4), _labels(16, 10)


def gated(kind: str) -> Callable[[Any], Function]:
    def factory(fw: Any) -> Function:
        def lstm(params: Any, carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = fw.np.split(x @ params["x"] + h @ params["h"] + params["b"], 4, axis=-1)
            c = fw.nn.sigmoid(f) * c + fw.nn.sigmoid(i) * fw.nn.tanh(g)
            return (fw.nn.sigmoid(o) * fw.nn.tanh(c), c), None

        def gru(params: Any, carry: Any, x: Any) -> Any:
            h, c = carry
            xs, hs = fw.np.split(x @ params["x"] + params["b"], 3, axis=-1), fw.np.split(h @ params["h"], 3, axis=-1)
            z, r = fw.nn.sigmoid(xs[0] + hs[0]), fw.nn.sigmoid(xs[1] + hs[1])
            return ((1 - z) * h + z * fw.nn.tanh(xs[2] + r * hs[2]), c), None

        def loss(params: Any, start: Any, xs: Any) -> Any:
            step = lstm if kind == "lstm" else gru
            (h, _), _ = fw.scan(lambda carry, x: step(params, carry, x), (start, start), xs)
            return fw.np.mean(h * h)

        return loss

    return factory


def _gated(steps: int, batch: int, features: int, hidden: int, gates: int) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        params = {"x": normal(features, gates * hidden, scale=0.2), "h": normal(hidden, gates * hidden, scale=0.1),
                  "b": normal(gates * hidden)}  # fmt: skip
        return params, normal(batch, hidden), normal(steps, batch, features)

    return inputs


def springs(fw: Any) -> Function:
    def energy(x: Any, a: Any, b: Any, rest: Any) -> Any:
        apart = x[a] - x[b]
        length = fw.np.sqrt(fw.np.sum(apart * apart, axis=1) + 1e-9)
        return 0.5 * fw.np.sum((length - rest) ** 2)

    return energy


def _springs() -> tuple[Any, ...]:
    ends = _rng().integers(0, 500, (2, 2000)).astype(np.int32)
    return normal(500, 3), ends[0], ends[1], np.abs(normal(2000))


def lennard_jones(fw: Any) -> Function:
    def energy(x: Any) -> Any:
        apart = x[:, None] - x[None]
        square = fw.np.sum(apart * apart, axis=-1) + 1e3 * fw.np.eye(x.shape[0], dtype=x.dtype)
        inverse = 1.0 / square**3
        return 2.0 * fw.np.sum(inverse * inverse - inverse)

    return energy


def _atoms() -> tuple[Any, ...]:
    grid = np.stack(np.meshgrid(*[np.arange(5)] * 3), -1).reshape(-1, 3) * 1.2
    return (grid.astype(np.float32) + normal(125, 3, scale=0.05),)


def heat(fw: Any) -> Function:
    """The conductivity of a rod from its temperature after 100 explicit steps."""

    def loss(conductivity: Any, start: Any, wanted: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            flux = fw.nn.sigmoid(conductivity) * (u[1:] - u[:-1])
            change = fw.np.concatenate([flux[:1], flux[1:] - flux[:-1], -flux[-1:]])
            return u + 0.4 * change, None

        u, _ = fw.scan(step, start, None, length=100)
        return fw.np.sum((u - wanted) ** 2) + 0.01 * fw.np.sum((conductivity[1:] - conductivity[:-1]) ** 2)

    return loss


def surface(fw: Any) -> Function:
    """The area of a graph over a grid."""

    def area(u: Any) -> Any:
        right, up = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
        return fw.np.sum(fw.np.sqrt(1 + 100 * (right**2 + up**2)))

    return area


def embedding(fw: Any) -> Function:
    def loss(params: Any, words: Any, labels: Any) -> Any:
        x = fw.np.mean(params["table"][words], axis=1)
        scores = fw.nn.log_softmax(fw.nn.relu(x @ params["in"]["w"] + params["in"]["b"]) @ params["out"]["w"])
        return -fw.np.mean(fw.np.sum(scores * fw.nn.one_hot(labels, 10, dtype=x.dtype), axis=1))

    return loss


def _words() -> tuple[Any, ...]:
    params = {"table": normal(1000, 32), "in": dense(32, 64), "out": dense(64, 10)}
    return params, _rng().integers(0, 1000, (64, 20)).astype(np.int32), _labels(64, 10)


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


def graph(fw: Any) -> Function:
    def loss(params: Any, links: Any, x: Any, labels: Any) -> Any:
        hidden = fw.nn.elu(links @ (x @ params["in"]["w"]) + params["in"]["b"])
        scores = fw.nn.log_softmax(links @ (hidden @ params["out"]["w"]))
        return -fw.np.mean(fw.np.sum(scores * fw.nn.one_hot(labels, 7, dtype=x.dtype), axis=1))

    return loss


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


def contrast(fw: Any) -> Function:
    def loss(params: Any, a: Any, b: Any) -> Any:
        a, b = (fw.nn.tanh(z @ params["w"]) for z in (a, b))
        a, b = (z / fw.np.sqrt(fw.np.sum(z * z, axis=1, keepdims=True)) for z in (a, b))
        scores = 5.0 * (a @ b.T)
        return -fw.np.mean(fw.np.diagonal(fw.nn.log_softmax(scores)))

    return loss


def neural_ode(fw: Any) -> Function:
    def loss(params: Any, y: Any, wanted: Any) -> Any:
        slope = lambda y: fw.nn.tanh(y @ params["in"]["w"] + params["in"]["b"]) @ params["out"]["w"]  # noqa: E731

        def step(y: Any, _: Any) -> Any:
            a = slope(y)
            b = slope(y + 0.05 * a)
            return y + 0.1 * b, None

        y, _ = fw.scan(step, y, None, length=20)
        return fw.np.mean((y - wanted) ** 2)

    return loss


def heads(fw: Any) -> Function:
    def loss(params: Any, x: Any, target: Any) -> Any:
        q, k, v = (fw.np.einsum("btd,dhc->bhtc", x, params[name]) for name in "qkv")
        weights = fw.nn.softmax(fw.np.einsum("bhtc,bhsc->bhts", q, k) * q.shape[-1] ** -0.5, axis=-1)
        return fw.np.mean((fw.np.einsum("bhts,bhsc,hcd->btd", weights, v, params["o"]) - target) ** 2)

    return loss


def _heads() -> tuple[Any, ...]:
    params = {name: normal(48, 3, 16, scale=0.15, seed=i) for i, name in enumerate("qkv")}
    return params | {"o": normal(3, 16, 48, scale=0.15)}, normal(8, 32, 48), normal(8, 32, 48, seed=1)


def _gaussian(fw: Any) -> Function:
    from workloads_science import gaussian_process

    return gaussian_process(fw)


def _rosenbrock(fw: Any) -> Function:
    from workloads import rosenbrock

    return rosenbrock(fw)


SWEEP = (
    Workload("softmax", "softmax regression 2000x50, 10", softmax_regression,
             lambda: (dense(50, 10), normal(2000, 50), _labels(2000, 10))),
    Workload("poisson", "Poisson regression 5000x100", _likelihood(lambda fw, s, y: fw.np.exp(s) - y * s), _rows(5000, 100, True)),
    Workload("negative-binomial", "negative binomial 3000x60",
             _likelihood(lambda fw, s, y: (y + 2.0) * fw.np.log(1 + 0.5 * fw.np.exp(s)) - y * s), _rows(3000, 60, True)),
    Workload("huber", "Huber regression 3000x80", _likelihood(_huber), _rows(3000, 80)),
    Workload("student", "Student-t regression 4000x30",
             _likelihood(lambda fw, s, y: 2.5 * fw.np.log1p((s - y) ** 2 / 4)), _rows(4000, 30)),
    Workload("odd-logistic", "logistic 1797x65", _likelihood(lambda fw, s, y: fw.nn.softplus(-y * s)), _rows(1797, 65)),
    Workload("wide-logistic", "logistic 100x5000", _likelihood(lambda fw, s, y: fw.nn.softplus(-y * s)), _rows(100, 5000)),
    Workload("cox", "Cox model 1000x40", cox,
             lambda: (normal(40, scale=0.1), normal(1000, 40), (normal(1000) > 0) + np.float32(0))),
    Workload("factorisation", "matrix factorisation 300x200, 10", factorisation,
             lambda: ({"u": normal(300, 10), "v": normal(200, 10), "a": normal(300), "b": normal(200)}, normal(300, 200),
                      (normal(300, 200, seed=2) > 0.5) + np.float32(0))),
    Workload("pca", "PCA 1000x100, 8", pca, lambda: (normal(100, 8, scale=0.1), normal(1000, 100))),
    Workload("kernel-ridge", "kernel ridge n=200", kernel_ridge,
             lambda: ({"scales": normal(5, scale=0.1), "alpha": normal(200, scale=0.1)}, normal(200, 5), normal(200, seed=1))),
    Workload("autoencoder", "autoencoder 256-64, batch 100", autoencoder,
             lambda: ({"in": dense(256, 64), "out": dense(64, 256)}, np.abs(normal(100, 256)))),
    Workload("gelu", "gelu and layer norm 64-128-128-10, batch 256", layers("gelu", "layer"), _layers(256, 64, 128, 128, 10)),
    Workload("relu", "relu and batch norm 50-100-100-10, batch 200", layers("relu", "batch"), _layers(200, 50, 100, 100, 10)),
    Workload("deep", "tanh, six layers of 32, batch 64", layers("tanh"), _layers(64, 20, 32, 32, 32, 32, 32, 5)),
    Workload("large", "relu 512-512-512-10, batch 256", layers("relu"), _layers(256, 512, 512, 512, 10)),
    Workload("tiny", "tanh 4-8-3, batch 16", layers("tanh"), _layers(16, 4, 8, 3)),
    Workload("strided", "strided 3x3 convolutions 8x32x32", images("strided"), _images(8, 32, 16)),
    Workload("max-pool", "5x5 convolutions, max pool 8x28x28", images("max"), _images(8, 28, 8, 5)),
    Workload("mean-pool", "3x3 convolutions, mean pool 8x32x32", images("mean"), _images(8, 32, 16)),
    Workload("separable", "separable convolution 8x24x24", images("separable"), _separable),
    Workload("signals", "1-D convolutions 16x128", images("strided"), _signals),
    Workload("lstm", "LSTM 30 steps, 8x32", gated("lstm"), _gated(30, 8, 16, 32, 4)),
    Workload("gru", "GRU 40 steps, 16x24", gated("gru"), _gated(40, 16, 8, 24, 3)),
    Workload("springs", "spring network 500, 2000", springs, _springs),
    Workload("lennard-jones", "Lennard-Jones 125", lennard_jones, _atoms),
    Workload("heat", "heat equation, 64 x 100 steps", heat, lambda: (normal(63), normal(64), normal(64, seed=1))),
    Workload("surface", "minimal surface 64x64", surface, lambda: (normal(64, 64, scale=0.1),)),
    Workload("embedding", "embedding 1000x32, 64x20", embedding, _words),
    Workload("rayleigh", "Rayleigh quotient 500", rayleigh, lambda: (normal(500), normal(500, 500))),
    Workload("phase", "phase retrieval 1000x100", phase, lambda: (normal(100), normal(1000, 100), np.abs(normal(1000)))),
    Workload("rastrigin", "Rastrigin n=10⁵", rastrigin, lambda: (normal(100000),)),
    Workload("rosenbrock-100", "Rosenbrock n=100", _rosenbrock, lambda: (normal(100, scale=0.5),)),
    Workload("rosenbrock-1e5", "Rosenbrock n=10⁵", _rosenbrock, lambda: (normal(100000, scale=0.5),)),
    Workload("tucker", "Tucker decomposition 20x24x28", tucker, _tensor),
    Workload("graph", "graph convolution 200", graph,
             lambda: ({"in": dense(50, 32), "out": dense(32, 7)}, normal(200, 200, scale=0.07), normal(200, 50), _labels(200, 7))),
    Workload("transport", "optimal transport 64x64, 20 steps", transport, lambda: (normal(64, 3), normal(64, 3, seed=1))),
    Workload("contrast", "contrastive loss 128x64", contrast,
             lambda: ({"w": normal(64, 32, scale=0.15)}, normal(128, 64), normal(128, 64, seed=1))),
    Workload("neural-ode", "neural ODE, 20 steps", neural_ode,
             lambda: ({"in": dense(8, 32), "out": dense(32, 8)}, normal(32, 8), normal(32, 8, seed=1))),
    Workload("heads", "three heads of attention 8x32x48", heads, _heads),
    Workload("process-64", "Gaussian process, n=64", _gaussian,
             lambda: ({"scales": normal(6, scale=0.1) + np.float32(0.5), "noise": np.float32(-1), "height": np.float32(0.1)},
                      normal(64, 6), normal(64, seed=1))),
)  # fmt: skip
