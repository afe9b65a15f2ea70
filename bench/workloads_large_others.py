"""The fourth set of workloads: more programs of realistic size, of kinds that are not in the third set."""

from __future__ import annotations

from typing import Any

import numpy as np
import workloads_networks as net
from workload import Function, Workload, dense, integers, normal
from workloads_sweep import transport


def _root_norm(fw: Any, x: Any, scale: Any) -> Any:
    return x * scale / fw.np.sqrt(fw.np.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def rotary(fw: Any) -> Function:
    """A language model with rotary positions, gated networks, and heads that share keys and values."""

    def turned(x: Any, cosines: Any, sines: Any) -> Any:
        a, b = fw.np.split(x, 2, axis=-1)
        return fw.np.concatenate([a * cosines - b * sines, a * sines + b * cosines], axis=-1)

    def loss(params: Any, words: Any, labels: Any, cosines: Any, sines: Any, hidden: Any) -> Any:
        x = params["table"][words]
        batch, tokens, width = x.shape
        for p in params["layers"]:
            y = _root_norm(fw, x, p["first"])
            q = (y @ p["q"]).reshape(batch, tokens, 2, 2, 64)
            k, v = (fw.np.reshape(y @ p[name], (batch, tokens, 2, 64)) for name in "kv")
            q, k = turned(q, cosines[:, None, None], sines[:, None, None]), turned(k, cosines[:, None], sines[:, None])
            scores = fw.nn.softmax(fw.np.einsum("btghd,bsgd->bghts", q, k) / 8 + hidden, axis=-1)
            x = x + fw.np.einsum("bghts,bsgd->btghd", scores, v).reshape(batch, tokens, width) @ p["o"]
            y = _root_norm(fw, x, p["second"])
            x = x + (fw.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        return net.cross_entropy(fw, (_root_norm(fw, x, params["last"]) @ params["table"].T).reshape(batch * tokens, -1), labels)

    return loss


def _rotary_inputs() -> tuple[Any, ...]:
    width, inner, tokens = 256, 683, 128
    layers = [
        {
            "first": 1 + normal(width, scale=0.1),
            "second": 1 + normal(width, scale=0.1),
            "q": normal(width, width, scale=0.06, seed=i),
            "k": normal(width, 128, scale=0.06, seed=i),
            "v": normal(width, 128, scale=0.06, seed=i + 9),
            "o": normal(width, width, scale=0.03, seed=i + 9),
            "gate": normal(width, inner, scale=0.06, seed=i),
            "up": normal(width, inner, scale=0.06, seed=i + 9),
            "down": normal(inner, width, scale=0.03, seed=i),
        }
        for i in range(4)
    ]
    angles = np.outer(np.arange(tokens), 1e4 ** (-np.arange(32) / 32))
    hidden = np.where(np.tri(tokens, dtype=bool), 0, -1e9).astype(np.float32)
    params = {"table": normal(2048, width, scale=0.05), "layers": layers, "last": 1 + normal(width, scale=0.1)}
    return (
        params,
        integers(2048, 4, tokens),
        integers(2048, 4 * tokens),
        *(f(angles).astype(np.float32) for f in (np.cos, np.sin)),
        hidden,
    )


def rays(fw: Any) -> Function:
    """The image of a radiance field: a network at points along rays; densities occlude the points behind them."""

    def loss(params: Any, points: Any, colours: Any) -> Any:
        bands = fw.np.concatenate([f(points * 2.0**k) for k in range(6) for f in (fw.np.sin, fw.np.cos)], axis=-1)
        x = bands
        for i, p in enumerate(params["layers"]):
            x = fw.nn.relu((fw.np.concatenate([x, bands], axis=-1) if i == 4 else x) @ p["w"] + p["b"])
        out = x @ params["out"]["w"] + params["out"]["b"]
        density, colour = fw.nn.softplus(out[..., 0]), fw.nn.sigmoid(out[..., 1:])
        clear = fw.np.exp(-0.1 * density)
        passed = fw.np.cumprod(fw.np.concatenate([fw.np.ones_like(clear[:, :1]), clear[:, :-1]], axis=1), axis=1)
        seen = fw.np.sum(((1 - clear) * passed)[..., None] * colour, axis=1)
        return fw.np.mean((seen - colours) ** 2)

    return loss


def _rays_inputs() -> tuple[Any, ...]:
    widths = [(36, 128), (128, 128), (128, 128), (128, 128), (164, 128), (128, 128)]
    params = {"layers": [dense(n, m) for n, m in widths], "out": dense(128, 4)}
    return params, normal(128, 48, 3), np.abs(normal(128, 3))


def vortices(fw: Any) -> Function:
    """Finds the start of a flow in a periodic square from its vorticity after 30 steps by Fourier transforms."""

    def loss(start: Any, seen: Any, kx: Any, ky: Any, laplacian: Any) -> Any:
        def step(w: Any, _: Any) -> Any:
            modes = fw.np.fft.rfft2(w)
            stream = modes / fw.np.where(laplacian == 0, 1.0, laplacian)
            back = lambda z: fw.np.fft.irfft2(z, s=w.shape)  # noqa: E731
            u, v = back(1j * ky * stream), -back(1j * kx * stream)
            wx, wy = back(1j * kx * modes), back(1j * ky * modes)
            moved = fw.np.fft.rfft2(w - 0.02 * (u * wx + v * wy))
            return back(moved / (1 + 2e-4 * laplacian)), None

        end, _ = fw.scan(step, start, None, length=30)
        return fw.np.mean((end - seen) ** 2)

    return loss


def _vortices_inputs() -> tuple[Any, ...]:
    n = 128
    kx, ky = (np.fft.fftfreq(n, 1 / n)[:, None] * np.ones(n // 2 + 1), np.ones((n, 1)) * np.arange(n // 2 + 1))
    return normal(n, n), normal(n, n, seed=1), *(a.astype(np.float32) for a in (kx, ky, kx * kx + ky * ky))


def fluid(fw: Any) -> Function:
    """The energy of particles that interact with their neighbours by the Lennard-Jones potential."""

    def energy(positions: Any, first: Any, second: Any, box: Any) -> Any:
        differences = positions[first] - positions[second]
        differences = differences - box * fw.np.round(differences / box)
        inverse = 1.0 / (fw.np.sum(differences * differences, axis=-1) + 0.3)
        sixth = inverse * inverse * inverse
        return 4 * fw.np.sum(sixth * sixth - sixth)

    return energy


def _fluid_inputs() -> tuple[Any, ...]:
    side, pairs = 20, 250_000
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return (
        (grid + normal(side**3, 3, scale=0.1)).astype(np.float32),
        integers(side**3, pairs),
        integers(side**3, pairs)[::-1].copy(),
        np.float32(side),
    )


def wave(fw: Any) -> Function:
    """Finds the speed of sound in a plane from the signals of receivers during 150 steps."""

    def loss(speed: Any, source: Any, heard: Any, pulse: Any) -> Any:
        square = 0.1 * speed * speed

        def step(state: Any, strength: Any) -> Any:
            before, now = state
            spread = fw.np.roll(now, 1, 0) + fw.np.roll(now, -1, 0) + fw.np.roll(now, 1, 1) + fw.np.roll(now, -1, 1) - 4 * now
            after = 2 * now - before + square * spread + strength * source
            return (now, after), after[8, ::4]

        _, traces = fw.scan(step, (0 * source, 0 * source), pulse)
        return fw.np.mean((traces - heard) ** 2)

    return loss


def coupling(fw: Any) -> Function:
    """Negative log-likelihood of a normalising flow of affine couplings."""

    def loss(params: Any, x: Any) -> Any:
        total = 0.0
        for p in params:
            a, b = fw.np.split(x, 2, axis=-1)
            h = fw.nn.tanh(fw.nn.tanh(a @ p["in"]["w"] + p["in"]["b"]) @ p["mid"]["w"] + p["mid"]["b"])
            scale, shift = fw.np.split(h @ p["out"]["w"] + p["out"]["b"], 2, axis=-1)
            scale = fw.nn.tanh(scale)
            x, total = fw.np.concatenate([b * fw.np.exp(scale) + shift, a], axis=-1), total + fw.np.sum(scale, axis=-1)
        return fw.np.mean(0.5 * fw.np.sum(x * x, axis=-1) - total)

    return loss


def _coupling_inputs() -> tuple[Any, ...]:
    return [{"in": dense(32, 128), "mid": dense(128, 128), "out": dense(128, 64)} for _ in range(8)], normal(1024, 64)


def ratings(fw: Any) -> Function:
    """The factorisation of a matrix with 500,000 known entries."""

    def loss(params: Any, rows: Any, columns: Any, known: Any) -> Any:
        u, v = params["rows"][rows], params["columns"][columns]
        missed = fw.np.sum(u * v, axis=-1) + params["row"][rows] + params["column"][columns] - known
        return fw.np.mean(missed * missed) + 1e-3 * fw.np.mean(u * u) + 1e-3 * fw.np.mean(v * v)

    return loss


def _ratings_inputs() -> tuple[Any, ...]:
    n, m, count = 20_000, 5_000, 500_000
    params = {"rows": normal(n, 32, scale=0.2), "columns": normal(m, 32, scale=0.2), "row": normal(n), "column": normal(m)}
    return params, integers(n, count), integers(m, count), normal(count)


def clusters(fw: Any) -> Function:
    """Negative log-likelihood of 50,000 points under a mixture of 50 diagonal normal distributions."""

    def loss(params: Any, x: Any) -> Any:
        away = (x[:, None, :] - params["means"]) * fw.np.exp(params["scales"])
        scores = params["weights"] + fw.np.sum(params["scales"], axis=-1) - 0.5 * fw.np.sum(away * away, axis=-1)
        return -fw.np.mean(fw.logsumexp(scores - fw.logsumexp(params["weights"]), axis=1))

    return loss


def _clusters_inputs() -> tuple[Any, ...]:
    return {"means": normal(50, 16), "scales": normal(50, 16, scale=0.1), "weights": normal(50)}, normal(50_000, 16)


def states(fw: Any) -> Function:
    """A network of linear recurrences with diagonal matrices; a parallel scan computes all steps by doubling."""

    def loss(params: Any, x: Any, wanted: Any) -> Any:
        for p in params:
            factor, push = fw.nn.sigmoid(p["decay"]), x @ p["in"]
            factors, length = fw.np.broadcast_to(factor, push.shape), 1
            while length < push.shape[1]:
                late = fw.np.pad(push, ((0, 0), (length, 0), (0, 0)))[:, : push.shape[1]]
                push = push + factors * late
                factors, length = factors * factors, 2 * length
            x = x + fw.nn.gelu(push) @ p["out"]
        return fw.np.mean((x - wanted) ** 2)

    return loss


def _states_inputs() -> tuple[Any, ...]:
    layers = [(normal(32, 64, scale=0.2, seed=i), normal(64, 32, scale=0.1, seed=i)) for i in range(3)]
    params = [{"decay": normal(64) + np.float32(2), "in": a, "out": b} for a, b in layers]
    return params, normal(16, 512, 32), normal(16, 512, 32, seed=1)


def depthwise(fw: Any) -> Function:
    """Blocks of a depthwise 7x7 convolution, a normalisation, and a network for each pixel."""

    def loss(params: Any, x: Any, wanted: Any) -> Any:
        for p in params:
            y = fw.conv(x, p["window"], groups=64)
            y = (y - fw.np.mean(y, -1, keepdims=True)) / fw.np.sqrt(fw.np.var(y, -1, keepdims=True) + 1e-5)
            x = x + fw.nn.gelu(y @ p["up"]["w"] + p["up"]["b"]) @ p["down"]["w"]
        return fw.np.mean((x - wanted) ** 2)

    return loss


def _depthwise_inputs() -> tuple[Any, ...]:
    params = [{"window": normal(7, 7, 1, 64, scale=0.1, seed=i), "up": dense(64, 256), "down": dense(256, 64)} for i in range(3)]
    return params, normal(8, 28, 28, 64), normal(8, 28, 28, 64, seed=1)


def filters(fw: Any) -> Function:
    """Negative log-likelihood of 64 series of 200 steps, each filtered with four hidden states."""

    def loss(params: Any, series: Any) -> Any:
        a, noise = 0.9 * fw.np.eye(4) + 0.1 * params["a"], fw.np.exp(params["noise"])
        seen = params["seen"]

        def step(state: Any, y: Any) -> Any:
            mean, cov, total = state
            mean = mean @ a.T
            cov = a @ cov @ a.T + noise * fw.np.eye(4)
            spread = seen @ cov @ seen.T + 0.1 * fw.np.eye(2)
            missed = y - mean @ seen.T
            det = spread[..., 0, 0] * spread[..., 1, 1] - spread[..., 0, 1] * spread[..., 1, 0]
            gain = fw.np.linalg.solve(spread, seen @ cov)
            weighted = fw.np.linalg.solve(spread, missed[..., None])[..., 0]
            total = total + fw.np.log(det) + fw.np.sum(missed * weighted, -1)
            mean = mean + fw.np.einsum("nij,ni->nj", gain, missed)
            return (mean, cov - fw.np.swapaxes(gain, -1, -2) @ seen @ cov, total), None

        start = (
            fw.np.zeros((64, 4), series.dtype),
            fw.np.broadcast_to(fw.np.eye(4, dtype=series.dtype), (64, 4, 4)),
            fw.np.zeros((64,), series.dtype),
        )
        (_, _, total), _ = fw.scan(step, start, series)
        return fw.np.mean(total) / 200

    return loss


def _filters_inputs() -> tuple[Any, ...]:
    return {"a": normal(4, 4), "noise": np.float32(-1.0), "seen": normal(2, 4)}, normal(200, 64, 2)


OTHERS = (
    Workload("rotary", "rotary GPT 4x256, 4x128 tokens", rotary, _rotary_inputs),
    Workload("rays", "radiance field, 128 rays of 48", rays, _rays_inputs),
    Workload("vortices", "vorticity 128x128, 30 steps of FFT", vortices, _vortices_inputs),
    Workload("fluid", "Lennard-Jones, 250,000 pairs", fluid, _fluid_inputs),
    Workload(
        "wave",
        "wave equation 192x192, 150 steps",
        wave,
        lambda: (1 + normal(192, 192, scale=0.05), normal(192, 192, scale=0.1), normal(150, 48), normal(150)),
    ),
    Workload("coupling", "normalising flow, 8 couplings, batch 1024", coupling, _coupling_inputs),
    Workload("ratings", "500,000 ratings, 32 factors", ratings, _ratings_inputs),
    Workload("clusters", "50 normal distributions, 50,000x16", clusters, _clusters_inputs),
    Workload("states", "diagonal recurrences 16x512", states, _states_inputs),
    Workload("depthwise", "depthwise 7x7 blocks, 8x28x28x64", depthwise, _depthwise_inputs),
    Workload("gru-large", "GRU 128, 200 steps x 32", net.gated("gru"), net.gated_inputs(200, 32, 128, 128, 3)),
    Workload("filters", "64 Kalman filters of 200 steps", filters, _filters_inputs),
    Workload("transport-large", "optimal transport 600x800, 20 steps", transport, lambda: (normal(600, 3), normal(800, 3, seed=1))),
)
