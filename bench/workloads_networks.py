"""Networks of the second set of workloads, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from workload import Function, dense, integers, normal


def cross_entropy(fw: Any, scores: Any, labels: Any) -> Any:
    """The mean over rows of the negative logarithm of the probability of the label."""
    hot = fw.nn.one_hot(labels, scores.shape[1], dtype=scores.dtype)
    return -fw.np.mean(fw.np.sum(fw.nn.log_softmax(scores) * hot, axis=1))


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
            return cross_entropy(fw, scores, labels)

        return loss

    return factory


def layer_inputs(batch: int, *sizes: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: ([dense(n, m) for n, m in pairwise(sizes)], normal(batch, sizes[0]), integers(sizes[-1], batch))


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
            return cross_entropy(fw, scores, labels)

        return loss

    return factory


def image_inputs(batch: int, size: int, channels: int, window: int = 3) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        params = {
            "a": normal(window, window, 3, channels, scale=0.2),
            "out": dense(2 * channels, 10),
            "b": normal(window, window, channels, 2 * channels, scale=0.1),
        }
        return params, normal(batch, size, size, 3), integers(10, batch)

    return inputs


def separable_inputs() -> tuple[Any, ...]:
    params = {
        "a": normal(1, 1, 3, 24, scale=0.4),
        "deep": normal(3, 3, 1, 24, scale=0.3),
        "b": normal(1, 1, 24, 32, scale=0.2),
        "out": dense(32, 10),
    }
    return params, normal(8, 24, 24, 3), integers(10, 8)


def signal_inputs() -> tuple[Any, ...]:
    params = {"a": normal(5, 4, 16, scale=0.2), "b": normal(5, 16, 24, scale=0.1), "out": dense(24, 10)}
    return params, normal(16, 128, 4), integers(10, 16)


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


def gated_inputs(steps: int, batch: int, features: int, hidden: int, gates: int) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        params = {
            "x": normal(features, gates * hidden, scale=0.2),
            "h": normal(hidden, gates * hidden, scale=0.1),
            "b": normal(gates * hidden),
        }
        return params, normal(batch, hidden), normal(steps, batch, features)

    return inputs


def embedding(fw: Any) -> Function:
    def loss(params: Any, words: Any, labels: Any) -> Any:
        x = fw.np.mean(params["table"][words], axis=1)
        return cross_entropy(fw, fw.nn.relu(x @ params["in"]["w"] + params["in"]["b"]) @ params["out"]["w"], labels)

    return loss


def embedding_inputs() -> tuple[Any, ...]:
    params = {"table": normal(1000, 32), "in": dense(32, 64), "out": dense(64, 10)}
    return params, integers(1000, 64, 20), integers(10, 64)


def graph(fw: Any) -> Function:
    def loss(params: Any, links: Any, x: Any, labels: Any) -> Any:
        hidden = fw.nn.elu(links @ (x @ params["in"]["w"]) + params["in"]["b"])
        return cross_entropy(fw, links @ (hidden @ params["out"]["w"]), labels)

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


def head_inputs() -> tuple[Any, ...]:
    params = {name: normal(48, 3, 16, scale=0.15, seed=i) for i, name in enumerate("qkv")}
    return params | {"o": normal(3, 16, 48, scale=0.15)}, normal(8, 32, 48), normal(8, 32, 48, seed=1)
