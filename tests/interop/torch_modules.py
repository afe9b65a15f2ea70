"""The modules of torch.nn, each with constructor arguments and inputs, and small architectures built from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Make = Callable[[], Any]
F64 = torch.float64


def _x(*shape: int) -> Any:
    return torch.randn(shape, dtype=F64)


def _u(*shape: int) -> Any:
    return torch.rand(shape, dtype=F64) * 0.8 + 0.1


def _i(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape)


def _signs(*shape: int) -> Any:
    return torch.randint(0, 2, shape).double() * 2 - 1


class CTCOfScores(nn.CTCLoss):
    """PyTorch's slope by logarithms of probabilities is that by scores of which they are normalized; so scores are what is given here."""

    def forward(self, scores: Any, *rest: Any) -> Any:
        return super().forward(scores.log_softmax(-1), *rest)


IMAGE, VOLUME, SIGNAL = (2, 4, 6, 6), (1, 4, 4, 4, 4), (2, 4, 8)
_BY_RANK = {1: SIGNAL, 2: IMAGE, 3: VOLUME}

# name -> (constructor arguments, inputs); all modules are made in f64, in eval mode.
MODULES: dict[str, tuple[Make, Callable[[], tuple[Any, ...]]]] = {
    **{
        name: (lambda n=name: getattr(nn, n)(), lambda: (_x(3, 5),))
        for name in (
            "CELU",
            "ELU",
            "GELU",
            "Hardshrink",
            "Hardsigmoid",
            "Hardswish",
            "Hardtanh",
            "Identity",
            "LeakyReLU",
            "LogSigmoid",
            "Mish",
            "PReLU",
            "RReLU",
            "ReLU",
            "ReLU6",
            "SELU",
            "SiLU",
            "Sigmoid",
            "Softplus",
            "Softshrink",
            "Softsign",
            "Tanh",
            "Tanhshrink",
            "Flatten",
            "Dropout",
            "AlphaDropout",
            "FeatureAlphaDropout",
        )
    },
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), lambda: (_x(3, 5),)),
    "GLU": (lambda: nn.GLU(-1), lambda: (_x(3, 6),)),
    **{name: (lambda n=name: getattr(nn, n)(-1), lambda: (_x(3, 5),)) for name in ("LogSoftmax", "Softmax", "Softmin")},
    "Softmax2d": (lambda: nn.Softmax2d(), lambda: (_x(*IMAGE),)),
    **{f"Dropout{r}d": (lambda r=r: getattr(nn, f"Dropout{r}d")(), lambda r=r: (_x(*_BY_RANK[r]),)) for r in (1, 2, 3)},
    # convolutions
    **{
        f"Conv{r}d": (lambda r=r: getattr(nn, f"Conv{r}d")(4, 6, 3, stride=2, padding=1, groups=2), lambda r=r: (_x(*_BY_RANK[r]),))
        for r in (1, 2, 3)
    },
    **{
        f"ConvTranspose{r}d": (
            lambda r=r: getattr(nn, f"ConvTranspose{r}d")(4, 2, 3, stride=2, padding=1, output_padding=1),
            lambda r=r: (_x(*_BY_RANK[r]),),
        )
        for r in (1, 2, 3)
    },
    "Fold": (lambda: nn.Fold((4, 5), (2, 2)), lambda: (_x(2, 12, 12),)),
    "Unfold": (lambda: nn.Unfold((2, 3), padding=1, stride=2), lambda: (_x(*IMAGE),)),
    # pools
    **{f"AvgPool{r}d": (lambda r=r: getattr(nn, f"AvgPool{r}d")(2), lambda r=r: (_x(*_BY_RANK[r]),)) for r in (1, 2, 3)},
    **{f"MaxPool{r}d": (lambda r=r: getattr(nn, f"MaxPool{r}d")(2), lambda r=r: (_x(*_BY_RANK[r]),)) for r in (1, 2, 3)},
    **{f"LPPool{r}d": (lambda r=r: getattr(nn, f"LPPool{r}d")(3, 2), lambda r=r: (_u(*_BY_RANK[r]),)) for r in (1, 2, 3)},
    **{
        f"AdaptiveAvgPool{r}d": (lambda r=r: getattr(nn, f"AdaptiveAvgPool{r}d")(2), lambda r=r: (_x(*_BY_RANK[r]),))
        for r in (1, 2, 3)
    },
    **{
        f"AdaptiveMaxPool{r}d": (lambda r=r: getattr(nn, f"AdaptiveMaxPool{r}d")(2), lambda r=r: (_x(*_BY_RANK[r]),))
        for r in (1, 2, 3)
    },
    "MaxUnpool1d": (lambda: nn.MaxUnpool1d(2), lambda: (_x(2, 4, 3), torch.arange(0, 6, 2).expand(2, 4, 3).contiguous())),
    "MaxUnpool2d": (
        lambda: nn.MaxUnpool2d(2),
        lambda: (_x(1, 2, 2, 2), torch.tensor([[0, 3], [9, 14]]).expand(1, 2, 2, 2).contiguous()),
    ),
    "MaxUnpool3d": (
        lambda: nn.MaxUnpool3d(2),
        lambda: (_x(1, 1, 1, 2, 2), torch.tensor([[[0, 3], [9, 14]]]).expand(1, 1, 1, 2, 2).contiguous()),
    ),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3, _random_samples=_u(2, 4, 2)), lambda: (_x(*IMAGE),)),
    "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, output_size=2, _random_samples=_u(1, 4, 3)), lambda: (_x(*VOLUME),)),
    # pads
    **{
        f"{kind}Pad{r}d": (lambda k=kind, r=r: getattr(nn, f"{k}Pad{r}d")(1), lambda r=r: (_x(*_BY_RANK[r]),))
        for kind in ("Circular", "Reflection", "Replication", "Zero")
        for r in (1, 2, 3)
    },
    **{
        f"ConstantPad{r}d": (lambda r=r: getattr(nn, f"ConstantPad{r}d")(1, 0.5), lambda r=r: (_x(*_BY_RANK[r]),))
        for r in (1, 2, 3)
    },
    # normalizations
    **{
        f"{kind}Norm{r}d": (lambda k=kind, r=r: getattr(nn, f"{k}Norm{r}d")(4, affine=True), lambda r=r: (_x(*_BY_RANK[r]),))
        for kind in ("Batch", "Instance")
        for r in (1, 2, 3)
    },
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4), lambda: (_x(*IMAGE),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), lambda: (_x(*IMAGE),)),
    "LayerNorm": (lambda: nn.LayerNorm((6, 6)), lambda: (_x(*IMAGE),)),
    "RMSNorm": (lambda: nn.RMSNorm(6), lambda: (_x(3, 6),)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), lambda: (_x(*IMAGE),)),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), lambda: (_x(*IMAGE),)),
    # linear, sparse, distances, shapes
    "Linear": (lambda: nn.Linear(5, 3), lambda: (_x(2, 5),)),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), lambda: (_x(5, 3), _x(5, 4))),
    "Embedding": (lambda: nn.Embedding(7, 3), lambda: (_i(7, 2, 4),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(7, 3), lambda: (_i(7, 2, 4),)),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(), lambda: (_x(3, 5), _x(3, 5))),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(), lambda: (_x(3, 5), _x(3, 5))),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), lambda: (_x(*IMAGE),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), lambda: (_x(*IMAGE),)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), lambda: (_x(*IMAGE),)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), lambda: (_x(*IMAGE),)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), lambda: (_x(*IMAGE),)),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), lambda: (_x(*IMAGE),)),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), lambda: (_x(*IMAGE),)),
    # recurrent networks
    **{
        name: (lambda n=name: getattr(nn, n)(3, 4, num_layers=2, batch_first=True), lambda: (_x(2, 5, 3),))
        for name in ("RNN", "GRU", "LSTM")
    },
    **{name: (lambda n=name: getattr(nn, n)(3, 4), lambda: (_x(2, 3), _x(2, 4))) for name in ("RNNCell", "GRUCell")},
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), lambda: (_x(2, 3), (_x(2, 4), _x(2, 4)))),
    # transformers
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: (_x(2, 3, 8), _x(2, 4, 8), _x(2, 4, 8))),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 12, batch_first=True), lambda: (_x(2, 3, 8), _x(2, 4, 8))),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), lambda: (_x(2, 3, 8),)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2),
        lambda: (_x(2, 3, 8),),
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 12, batch_first=True), lambda: (_x(2, 3, 8), _x(2, 4, 8))),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, batch_first=True), 2),
        lambda: (_x(2, 3, 8), _x(2, 4, 8)),
    ),
    # losses
    **{
        name: (lambda n=name: getattr(nn, n)(), lambda: (_x(4, 3), _x(4, 3)))
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss")
    },
    "BCELoss": (lambda: nn.BCELoss(), lambda: (_u(4, 3), _u(4, 3))),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(), lambda: (_x(4, 3), _u(4, 3))),
    "CosineEmbeddingLoss": (lambda: nn.CosineEmbeddingLoss(), lambda: (_x(4, 3), _x(4, 3), _signs(4))),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), lambda: (_x(4, 5), _i(5, 4))),
    "CTCLoss": (
        lambda: CTCOfScores(),
        lambda: (_x(9, 2, 4), torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([9, 7]), torch.tensor([3, 2])),
    ),
    "GaussianNLLLoss": (lambda: nn.GaussianNLLLoss(), lambda: (_x(4, 3), _x(4, 3), _u(4, 3))),
    "HingeEmbeddingLoss": (lambda: nn.HingeEmbeddingLoss(), lambda: (_x(4, 3), _signs(4, 3))),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), lambda: (_x(4, 3), _u(4, 3))),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(3, 5), lambda: (_x(4, 3), _i(5, 4))),
    "MarginRankingLoss": (lambda: nn.MarginRankingLoss(0.2), lambda: (_x(4), _x(4), _signs(4))),
    "MultiLabelMarginLoss": (lambda: nn.MultiLabelMarginLoss(), lambda: (_x(2, 4), torch.tensor([[3, 0, -1, 1], [0, -1, 1, 2]]))),
    "MultiLabelSoftMarginLoss": (lambda: nn.MultiLabelSoftMarginLoss(), lambda: (_x(4, 3), _u(4, 3).round())),
    "MultiMarginLoss": (lambda: nn.MultiMarginLoss(), lambda: (_x(4, 3), _i(3, 4))),
    "NLLLoss": (lambda: nn.NLLLoss(), lambda: (_x(4, 3), _i(3, 4))),
    "NLLLoss2d": (lambda: nn.NLLLoss2d(), lambda: (_x(2, 3, 4, 4), _i(3, 2, 4, 4))),
    "SoftMarginLoss": (lambda: nn.SoftMarginLoss(), lambda: (_x(4, 3), _signs(4, 3))),
    "TripletMarginLoss": (lambda: nn.TripletMarginLoss(), lambda: (_x(4, 3), _x(4, 3), _x(4, 3))),
    "TripletMarginWithDistanceLoss": (lambda: nn.TripletMarginWithDistanceLoss(), lambda: (_x(4, 3), _x(4, 3), _x(4, 3))),
    "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 6]), lambda: (_x(4, 6), _i(10, 4))),
}

# What takes no tensors, stands for another one once its shapes are known, or needs several devices.
OTHERS = {
    "Container",
    "DataParallel",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCellBase",
    "Sequential",
    *(name for name in dir(nn) if name.startswith("Lazy")),
}
