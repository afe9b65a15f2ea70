"""Networks of realistic size: language models, vision, recurrence, diffusion and graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import workloads_networks as net
from workload import Function, Workload, dense, integers, normal

# ---------------------------------------------------------------- parts


def _normalized(fw: Any, x: Any, scales: Any, axis: Any = -1) -> Any:
    """Zero mean and unit variance over some axes, then a factor and a shift."""
    x = x - fw.np.mean(x, axis=axis, keepdims=True)
    x = x / fw.np.sqrt(fw.np.mean(x * x, axis=axis, keepdims=True) + 1e-5)
    return x * scales["w"] + scales["b"]


def _scales(width: int) -> dict[str, np.ndarray]:
    return {"w": 1 + normal(width, scale=0.1), "b": normal(width, scale=0.1)}


def _attended(fw: Any, layer: Any, x: Any, mask: Any) -> Any:
    q, k, v = (fw.np.einsum("btd,dhc->bhtc", x, layer[name]) for name in "qkv")
    scores = fw.np.einsum("bhtc,bhsc->bhts", q, k) * q.shape[-1] ** -0.5 + mask
    return fw.np.einsum("bhts,bhsc,hcd->btd", fw.nn.softmax(scores, axis=-1), v, layer["o"])


def _block(fw: Any, layer: Any, x: Any, mask: Any) -> Any:
    """A transformer layer with a normalisation before attention and before the network."""
    x = x + _attended(fw, layer, _normalized(fw, x, layer["first"]), mask)
    hidden = fw.nn.gelu(_normalized(fw, x, layer["second"]) @ layer["up"]["w"] + layer["up"]["b"])
    return x + hidden @ layer["down"]["w"] + layer["down"]["b"]


def _block_inputs(width: int, heads: int, seed: int) -> dict[str, Any]:
    one = lambda i: normal(width, heads, width // heads, scale=width**-0.5, seed=4 * seed + i)  # noqa: E731
    layer = {name: one(i) for i, name in enumerate("qkv")}
    layer["o"] = normal(heads, width // heads, width, scale=width**-0.5, seed=seed)
    return layer | {
        "up": dense(width, 4 * width),
        "down": dense(4 * width, width),
        "first": _scales(width),
        "second": _scales(width),
    }


def _likelihood(fw: Any, scores: Any, labels: Any) -> Any:
    """The mean logarithm of the probability of the labels."""
    return fw.np.mean(fw.np.take_along_axis(fw.nn.log_softmax(scores), labels[..., None], axis=-1))


# ---------------------------------------------------------------- sequences


def gpt(fw: Any) -> Function:
    """A language model with causal attention; the last layer shares the weights of the word embedding."""

    def loss(params: Any, words: Any, targets: Any, mask: Any) -> Any:
        x = params["words"][words] + params["positions"]
        for layer in params["layers"]:
            x = _block(fw, layer, x, mask)
        return -_likelihood(fw, _normalized(fw, x, params["last"]) @ params["words"].T, targets)

    return loss


def gpt_inputs(layers: int, width: int, tokens: int, batch: int, words: int) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        params = {
            "words": normal(words, width, scale=0.05),
            "positions": normal(tokens, width, scale=0.05),
            "layers": [_block_inputs(width, max(width // 64, 1), i) for i in range(layers)],
            "last": _scales(width),
        }
        mask = np.where(np.tri(tokens, dtype=bool), 0, -1e9).astype(np.float32)
        text = integers(words, batch, tokens + 1)
        return params, np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:]), mask

    return inputs


# ---------------------------------------------------------------- images


def convolutions(fw: Any) -> Function:
    """A network of five 3x3 convolutions; the stride is two where the width changes."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = images
        for kernel in params["kernels"]:
            x = fw.nn.silu(fw.conv(x, kernel, 2 if 3 < kernel.shape[2] < kernel.shape[3] else 1))
        scores = fw.np.mean(x, axis=(1, 2)) @ params["out"]["w"] + params["out"]["b"]
        return net.cross_entropy(fw, scores, labels)

    return loss


def _convolutions_inputs() -> tuple[Any, ...]:
    widths = (3, 32, 64, 64, 128, 128)
    kernels = [_kernel(a, b) for a, b in pairwise(widths)]
    return {"kernels": kernels, "out": dense(128, 10)}, normal(32, 32, 32, 3), integers(10, 32)


def _kernel(before: int, after: int, window: int = 3) -> np.ndarray:
    return normal(window, window, before, after, scale=(window * window * before) ** -0.5)


def resnet(fw: Any) -> Function:
    """The blocks of a ResNet-18 with batch normalisation, for images of 32x32; smooth, so that rounding makes no jumps."""

    def norm(x: Any, scales: Any) -> Any:
        return _normalized(fw, x, scales, axis=(0, 1, 2))

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = fw.nn.silu(norm(fw.conv(images, params["in"]), params["scales"]))
        for block in params["blocks"]:
            stride = 2 if "skip" in block else 1
            y = fw.nn.silu(norm(fw.conv(x, block["a"], stride), block["first"]))
            y = norm(fw.conv(y, block["b"]), block["second"])
            x = fw.nn.silu(y + (norm(fw.conv(x, block["skip"], 2), block["third"]) if "skip" in block else x))
        scores = fw.np.mean(x, axis=(1, 2)) @ params["out"]["w"] + params["out"]["b"]
        return net.cross_entropy(fw, scores, labels)

    return loss


def _resnet_inputs() -> tuple[Any, ...]:
    blocks, before = [], 64
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        block = {"a": _kernel(before, width), "b": _kernel(width, width), "first": _scales(width), "second": _scales(width)}
        blocks.append(block if width == before else block | {"skip": _kernel(before, width, 1), "third": _scales(width)})
        before = width
    params = {"in": _kernel(3, 64), "scales": _scales(64), "blocks": blocks, "out": dense(512, 10)}
    return params, normal(8, 32, 32, 3), integers(10, 8)


def vit(fw: Any) -> Function:
    """A vision transformer: patches, layers with full attention, the mean over patches."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        n, size, _, channels = images.shape
        patches = images.reshape(n, size // 4, 4, size // 4, 4, channels).transpose(0, 1, 3, 2, 4, 5)
        x = patches.reshape(n, -1, 16 * channels) @ params["in"]["w"] + params["in"]["b"] + params["positions"]
        for layer in params["layers"]:
            x = _block(fw, layer, x, 0.0)
        scores = fw.np.mean(_normalized(fw, x, params["last"]), axis=1) @ params["out"]["w"] + params["out"]["b"]
        return net.cross_entropy(fw, scores, labels)

    return loss


def _vit_inputs() -> tuple[Any, ...]:
    params = {
        "in": dense(48, 192),
        "positions": normal(64, 192, scale=0.1),
        "layers": [_block_inputs(192, 3, i) for i in range(6)],
        "last": _scales(192),
        "out": dense(192, 10),
    }
    return params, normal(16, 32, 32, 3), integers(10, 16)


def mixer(fw: Any) -> Function:
    """An MLP-mixer: networks over patches and over channels alternate."""

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for layer in params["layers"]:
            y = fw.np.swapaxes(_normalized(fw, x, layer["first"]), 1, 2)
            y = fw.nn.gelu(y @ layer["in"]["w"] + layer["in"]["b"]) @ layer["back"]["w"] + layer["back"]["b"]
            x = x + fw.np.swapaxes(y, 1, 2)
            y = fw.nn.gelu(_normalized(fw, x, layer["second"]) @ layer["up"]["w"] + layer["up"]["b"])
            x = x + y @ layer["down"]["w"] + layer["down"]["b"]
        return net.cross_entropy(fw, fw.np.mean(x, axis=1) @ params["out"]["w"] + params["out"]["b"], labels)

    return loss


def mixer_inputs(layers: int) -> Callable[[], tuple[Any, ...]]:
    def inputs() -> tuple[Any, ...]:
        layer = lambda: {  # noqa: E731
            "first": _scales(256),
            "second": _scales(256),
            "in": dense(64, 128),
            "back": dense(128, 64),
            "up": dense(256, 512),
            "down": dense(512, 256),
        }
        return {"layers": [layer() for _ in range(layers)], "out": dense(256, 10)}, normal(16, 64, 256), integers(10, 16)

    return inputs


def _unet(fw: Any, params: Any, x: Any, shift: Any = None) -> Any:
    """A U-Net with three widths and skip connections; `shift` is added at the innermost level."""
    stored = []
    for level in params["down"]:
        x = fw.nn.silu(fw.conv(x, level["a"]))
        x = fw.nn.silu(_normalized(fw, fw.conv(x, level["b"]), level["scales"], axis=(1, 2)))
        stored.append(x)
        x = fw.avg_pool(x, 2)
    x = fw.nn.silu(fw.conv(x, params["middle"]))
    if shift is not None:
        x = x + shift[:, None, None, :]
    for level, other in zip(params["up"], reversed(stored), strict=True):
        x = fw.np.repeat(fw.np.repeat(x, 2, axis=1), 2, axis=2)
        x = fw.nn.silu(fw.conv(fw.np.concatenate([x, other], axis=-1), level["a"]))
        x = fw.nn.silu(_normalized(fw, fw.conv(x, level["b"]), level["scales"], axis=(1, 2)))
    return fw.conv(x, params["out"])


def _unet_params(*widths: int) -> dict[str, Any]:
    level = lambda a, b: {"a": _kernel(a, b), "b": _kernel(b, b), "scales": _scales(b)}  # noqa: E731
    down = [level(a, b) for a, b in zip((3, *widths), widths[:-1], strict=False)]
    up = [level(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True)]
    return {"down": down, "middle": _kernel(widths[-2], widths[-1]), "up": up, "out": _kernel(widths[0], 3)}


def unet(fw: Any) -> Function:
    """The distance of a U-Net's image to a wanted one."""
    return lambda params, images, wanted: fw.np.mean((_unet(fw, params, images) - wanted) ** 2)


def diffusion(fw: Any) -> Function:
    """The loss of a diffusion model: a U-Net that knows the time guesses the noise in an image."""

    def loss(params: Any, images: Any, noise: Any, times: Any) -> Any:
        signal = fw.np.cos(0.5 * np.pi * times) ** 2
        noisy = fw.np.sqrt(signal)[:, None, None, None] * images + fw.np.sqrt(1 - signal)[:, None, None, None] * noise
        angles = times[:, None] * fw.np.exp(params["rates"])
        features = fw.np.concatenate([fw.np.sin(angles), fw.np.cos(angles)], axis=1)
        shift = fw.nn.silu(features @ params["time"]["w"] + params["time"]["b"])
        return fw.np.mean((_unet(fw, params["net"], noisy, shift) - noise) ** 2)

    return loss


def _diffusion_inputs() -> tuple[Any, ...]:
    rates = np.linspace(0, 6, 32).astype(np.float32)
    params = {"net": _unet_params(32, 64, 128), "rates": rates, "time": dense(64, 128)}
    times = np.linspace(0.05, 0.95, 8).astype(np.float32)
    return params, normal(8, 32, 32, 3), normal(8, 32, 32, 3, seed=1), times


# ---------------------------------------------------------------- graphs


def messages(fw: Any) -> Function:
    """A graph network: each node sums messages, which a layer computes from the two ends of an edge."""

    def loss(params: Any, x: Any, sources: Any, targets: Any, labels: Any) -> Any:
        for layer in params["layers"]:
            sent = fw.nn.relu((x @ layer["from"])[sources] + (x @ layer["to"])[targets] + layer["b"])
            heard = fw.np.zeros(x.shape, x.dtype).at[targets].add(sent)
            x = fw.nn.relu(_normalized(fw, x + heard @ layer["out"], layer["scales"]))
        return net.cross_entropy(fw, x @ params["out"]["w"] + params["out"]["b"], labels)

    return loss


def _messages_inputs() -> tuple[Any, ...]:
    nodes, edges, width = 5_000, 50_000, 64
    layer = lambda i: {  # noqa: E731
        name: normal(width, width, scale=width**-0.5, seed=3 * i + k) for k, name in enumerate(("from", "to", "out"))
    }
    layers = [layer(i) | {"b": normal(width, scale=0.1), "scales": _scales(width)} for i in range(3)]
    ends = integers(nodes, 2, edges)
    return {"layers": layers, "out": dense(width, 10)}, normal(nodes, width), ends[0].copy(), ends[1].copy(), integers(10, nodes)


NETWORKS = (
    Workload("gpt", "GPT 4x512, 4x128 tokens", gpt, gpt_inputs(4, 512, 128, 4, 8192)),
    Workload("lstm-large", "LSTM 256, 100 steps x 64", net.gated("lstm"), net.gated_inputs(100, 64, 256, 256, 4)),
    Workload("convolutions", "convolutions 32-128, 32x32x32", convolutions, _convolutions_inputs),
    Workload("mlp-large", "784-2048-2048-10, batch 512", net.layers("relu"), net.layer_inputs(512, 784, 2048, 2048, 10)),
    Workload("resnet", "ResNet-18 blocks, batch 8", resnet, _resnet_inputs),
    Workload("vit", "ViT 6x192, batch 16", vit, _vit_inputs),
    Workload("mixer", "mixer, 12 layers, batch 16", mixer, mixer_inputs(12)),
    Workload(
        "unet",
        "U-Net 32-64-128, 8x32x32",
        unet,
        lambda: (_unet_params(32, 64, 128), normal(8, 32, 32, 3), normal(8, 32, 32, 3, seed=1)),
    ),
    Workload("diffusion", "diffusion loss, 8x32x32", diffusion, _diffusion_inputs),
    Workload("messages", "graph network, 50,000 edges", messages, _messages_inputs),
)
