"""Published architectures built from code, narrow, with random weights: a name, a module and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two convolutions with a way around them (He et al., 2015)."""

    def __init__(self, channels: int, features: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, features, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(features, features, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(features), nn.BatchNorm2d(features)])
        self.around = nn.Identity()
        if stride != 1 or channels != features:
            self.around = nn.Sequential(nn.Conv2d(channels, features, 1, stride, bias=False), nn.BatchNorm2d(features))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.around(x))


class ResNet18(nn.Module):
    """Four stages of two blocks each."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [width * 2**i for i in range(4)]
        stages = [[Block(widths[max(i - 1, 0)], w, 1 if i == 0 else 2), Block(w, w, 1)] for i, w in enumerate(widths)]
        self.stages = nn.Sequential(*(block for stage in stages for block in stage))
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, x: Any) -> Any:
        return self.head(F.adaptive_avg_pool2d(self.stages(self.stem(x)), 1).flatten(1))


class ViT(nn.Module):
    """Patches as words, and a class token (Dosovitskiy et al., 2020)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, 0.1, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.token.expand(x.shape[0], -1, -1), rows], 1) + self.positions
        return self.head(self.layers(rows)[:, 0])


class Attention(nn.Module):
    """Attention of each word to the words before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class GPT2(nn.Module):
    """Words in, logits of the next one out; the first and the last weights are the same (Radford et al., 2019)."""

    def __init__(self, words: int = 11, width: int = 8, length: int = 6) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(5)])
        self.attentions = nn.ModuleList([Attention(width, 2) for _ in range(2)])
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)) for _ in range(2)]
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: Any) -> Any:
        x = self.words(words) + self.positions(torch.arange(words.shape[1]))
        for i, (attention, layer) in enumerate(zip(self.attentions, self.layers, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + layer(self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x))


class Tagger(nn.Module):
    """Words, a bidirectional LSTM of two layers, and a label for each."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.head = (
            nn.Embedding(11, 6),
            nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True),
            nn.Linear(10, 4),
        )

    def forward(self, words: Any) -> Any:
        return F.log_softmax(self.head(self.lstm(self.words(words))[0]), -1)


class UNet(nn.Module):
    """Down and up again, with a way across at each size (Ronneberger et al., 2015)."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        pair = lambda a, b: nn.Sequential(  # noqa: E731
            nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU()
        )
        self.down = nn.ModuleList([pair(1, width), pair(width, 2 * width)])
        self.middle = pair(2 * width, 4 * width)
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.across = nn.ModuleList([pair(4 * width, 2 * width), pair(2 * width, width)])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Any) -> Any:
        stored = []
        for layer in self.down:
            stored.append(layer(x))
            x = F.max_pool2d(stored[-1], 2)
        x = self.middle(x)
        for up, across, other in zip(self.up, self.across, reversed(stored), strict=True):
            x = across(torch.cat([up(x), other], 1))
        return self.head(x)


def _words(*shape: int) -> Any:
    return torch.randint(0, 11, shape)


ARCHITECTURES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, ...]]]] = {
    "ResNet-18": (ResNet18, lambda: (torch.randn(2, 3, 32, 32, dtype=torch.float64),)),
    "ViT": (ViT, lambda: (torch.randn(2, 3, 16, 16, dtype=torch.float64),)),
    "GPT-2": (GPT2, lambda: (_words(2, 6),)),
    "LSTM": (Tagger, lambda: (_words(2, 5),)),
    "U-Net": (UNet, lambda: (torch.randn(1, 1, 16, 16, dtype=torch.float64),)),
}
