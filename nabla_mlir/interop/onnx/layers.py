"""Operators of ONNX that are layers of networks: products of matrices, normalizations, dropout, recurrent ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir import nn
from nabla_mlir.interop.onnx.table import Refusal, define, operator
from nabla_mlir.numpy import linalg
from nabla_mlir.table.tensor import Tensor
from nabla_mlir.transforms.scans import scan

# ---------------------------------------------------------------- products

define("MatMul", lambda x, y: nnp.matmul(x, y).astype(x.dtype))
define("Det", lambda x: linalg.det(x))


@operator("Gemm")
def _gemm(
    a: Tensor, b: Tensor, c: Any = None, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0, broadcast: int = 0
) -> Tensor:
    """The matrix alpha * a @ b + beta * c; `transA` and `transB` transpose a and b first. `broadcast` has no effect."""
    y = nnp.matmul(a.T if transA else a, b.T if transB else b)
    y = y if alpha == 1 else (y * alpha).astype(y.dtype)
    return y if c is None else y + (c if beta == 1 else (c * beta).astype(c.dtype))


@operator("Einsum")
def _einsum(*xs: Tensor, equation: str = "") -> Tensor:
    return nnp.einsum(equation, *xs)


# ---------------------------------------------------------------- normalizations


def _along_channels(vector: Tensor, rank: int) -> Tensor:
    """A vector with one number for each channel, reshaped for arrays (batch, channels, ...) of this rank."""
    return vector.reshape(-1, *(1,) * (rank - 2))


@operator("BatchNormalization")
def _batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    is_test: int = 1,
    spatial: int = 1,
    consumed_inputs: Any = None,
    *,
    outputs: int,
) -> Any:
    """The inputs scale * (x - mean) / sqrt(var + epsilon) + bias by channels; in training also the running mean and variance.

    In training, mean and variance are those of x, and momentum is the weight of the old ones in the running ones. `outputs` is the
    number of results. The other parameters are attributes of the first opsets.
    """
    if not spatial or (outputs > 1 and not training_mode):
        raise Refusal("one mean for each channel, and training_mode=1 for further results", f"spatial={spatial}, {outputs} results")
    running = mean, var
    if training_mode:
        axes = (0, *range(2, x.ndim))
        mean, var = nnp.mean(x, axes), nnp.var(x, axes)
    inverse = _along_channels(scale / nnp.sqrt(var + epsilon), x.ndim)
    y = ((x - _along_channels(mean, x.ndim)) * inverse + _along_channels(bias, x.ndim)).astype(x.dtype)
    return (y, *(old * momentum + new * (1 - momentum) for old, new in zip(running, (mean, var), strict=True)))[:outputs]


@operator("InstanceNormalization")
def _instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, epsilon: float = 1e-5, consumed_inputs: Any = None) -> Tensor:
    """The inputs x, normalised over the spatial axes of each channel of each sample, times `scale` plus `bias` of the channel."""
    axes = tuple(range(2, x.ndim))
    normal = (x - nnp.mean(x, axes, keepdims=True)) / nnp.sqrt(nnp.var(x, axes, keepdims=True) + epsilon)
    return _along_channels(scale, x.ndim) * normal + _along_channels(bias, x.ndim)


@operator("Dropout", static=("ratio", "training_mode"))
def _dropout(
    x: Tensor,
    ratio: Any = None,
    training_mode: Any = None,
    seed: Any = None,
    is_test: int = 1,
    consumed_inputs: Any = None,
    *,
    outputs: int,
) -> Any:
    """The array x unchanged, and if `outputs` is 2 a mask of True: outside of training, dropout has no effect.

    Training is refused, because ONNX does not define the random numbers. The other parameters are ONNX's attributes.
    """
    chance = 0.5 if ratio is None else float(np.ravel(ratio)[0])
    if (training_mode is not None and np.ravel(training_mode)[0]) and chance:
        raise Refusal("no random numbers, because ONNX does not define them", f"training_mode with ratio {chance:g}")
    return (x, nnp.ones_like(x, dtype=bool))[:outputs]


# ---------------------------------------------------------------- recurrent networks

_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "Affine": lambda x, alpha=1.0, beta=0.0: x * alpha + beta,
    "Elu": lambda x, alpha=1.0, beta=0.0: nn.elu(x, alpha),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: nnp.clip(x * alpha + beta, 0, 1),
    "Relu": lambda x: nn.relu(x),
    "LeakyRelu": lambda x, alpha=0.01, beta=0.0: nnp.where(x < 0, x * alpha, x),
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: nnp.tanh(x * beta) * alpha,
    "Sigmoid": lambda x: nn.sigmoid(x),
    "Softplus": lambda x: nn.softplus(x),
    "Softsign": lambda x: nn.soft_sign(x),
    "Tanh": lambda x: nnp.tanh(x),
    "ThresholdedRelu": lambda x, alpha=1.0, beta=0.0: nnp.where(x > alpha, x, nnp.zeros_like(x)),
}
_WITH_NUMBERS = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")


def _activations(names: Sequence[str], alphas: Any, betas: Any) -> list[Callable[[Tensor], Tensor]]:
    """The activation functions of all directions, from their names; raises Refusal for an unknown name.

    `alphas` and `betas` list only the parameters of activations that have them.
    """
    known = {name.lower(): name for name in _ACTIVATIONS}
    alphas, betas = iter(alphas or ()), iter(betas or ())
    result: list[Callable[[Tensor], Tensor]] = []
    for word in names:
        if word.lower() not in known:
            raise Refusal(f"activations among {', '.join(_ACTIVATIONS)}", word)
        name = known[word.lower()]
        numbers = {"alpha": next(alphas, None), "beta": next(betas, None)} if name in _WITH_NUMBERS else {}
        options = {key: value for key, value in numbers.items() if value is not None}
        result.append(functools.partial(_ACTIVATIONS[name], **options))
    return result


def _recurrent(step: Callable[..., Any], gates: int, defaults: Sequence[str], states: int) -> Callable[..., Any]:
    """A function for a recurrent layer: RNN, GRU or LSTM.

    Args:
      step: computes one time step of one direction; its first new state is the result of the step.
      gates: the number of gates, whose weights are stacked.
      defaults: the names of the default activations of one direction.
      states: the number of states: 1, or 2 for the LSTM, which has a cell.
    """

    def run(
        x: Tensor,
        w: Tensor,
        r: Tensor,
        b: Any = None,
        lengths: Any = None,
        h: Any = None,
        c: Any = None,
        peepholes: Any = None,
        hidden_size: Any = None,
        direction: str = "forward",
        layout: int = 0,
        activations: Any = None,
        activation_alpha: Any = None,
        activation_beta: Any = None,
        clip: float | None = None,
        linear_before_reset: int = 0,
        input_forget: int = 0,
        output_sequence: int = 0,
    ) -> Any:
        """The results of all time steps, shape (time, direction, batch, hidden), then the final states, one array for each kind of
        state.

        Args:
          x: the inputs, shape (time, batch, features); `layout` 1 means that the batch is the first axis, also of the results.
          w, r: for each direction, the weights of the inputs and of the state; the gates are stacked.
          b: for each direction, the two biases, stacked; None for zeros.
          lengths: the length of each sequence of the batch, or None.
          h, c: the first states; None for zeros. Only the LSTM has `c`.
          peepholes: for each direction, the weights of the cell in the gates of an LSTM, or None.
          direction: "forward", "reverse" or "bidirectional".
          clip: the largest modulus of the arguments of the activations, or None.
          activations, activation_alpha, activation_beta: the names and constants of the activations.
          linear_before_reset, input_forget: variants of the GRU and the LSTM.
          hidden_size, output_sequence: have no effect.
        """
        count, size = w.shape[0], r.shape[-1]
        names = [n.decode() if isinstance(n, bytes) else n for n in activations or ()] or list(defaults) * count
        functions = _activations(names, activation_alpha, activation_beta)
        x = nnp.swapaxes(x, 0, 1) if layout else x
        begin = [None if s is None else (nnp.swapaxes(s, 0, 1) if layout else s) for s in (h, c)][:states]
        bound = (lambda z: z) if clip is None else (lambda z: nnp.clip(z, -clip, clip))
        results, finals = [], []
        for i in range(count):
            is_back = direction == "reverse" or i == 1
            bias = nnp.zeros((2, gates * size), dtype=x.dtype) if b is None else b[i].reshape(2, -1)
            zero = nnp.zeros((x.shape[1], size), dtype=x.dtype)
            start = tuple(zero if s is None else s[i] for s in begin)
            positions = np.arange(x.shape[0])
            direction_functions = functions[i * len(defaults) : (i + 1) * len(defaults)]
            peephole = None if peepholes is None else peepholes[i]

            def body(
                carry: Any,
                item: Any,
                i: int = i,
                bias: Any = bias,
                direction_functions: Any = direction_functions,
                peephole: Any = peephole,
            ) -> Any:
                """One step; after the end of a sequence the state stays and the result is zero."""
                row, position = item
                new_state = step(
                    direction_functions, carry, row, w[i], r[i], bias, bound, peephole, linear_before_reset, input_forget
                )
                if lengths is None:
                    return new_state, new_state[0]
                is_inside = (position < lengths)[:, None]
                after = tuple(nnp.where(is_inside, n, o) for n, o in zip(new_state, carry, strict=True))
                return after, nnp.where(is_inside, new_state[0], nnp.zeros_like(new_state[0]))

            final, rows = scan(body, start, (x, nnp.asarray(positions)), reverse=is_back)
            results.append(rows)
            finals.append(final)
        y = nnp.stack(results, 1)  # (time, direction, batch, hidden)
        last = [nnp.stack(parts, 0) for parts in zip(*finals, strict=True)]
        if layout:
            y, last = nnp.permute_dims(y, (2, 0, 1, 3)), [nnp.swapaxes(s, 0, 1) for s in last]
        return (y, *last)

    return run


def _rnn_step(fs: Any, state: Any, x: Tensor, w: Tensor, r: Tensor, b: Any, bound: Any, *_: Any) -> Any:
    """The new state, as a tuple, after one step of a simple recurrent layer: f(x w^T + h r^T + b[0] + b[1]).

    `fs` has the activation f, `state` the old state h, and `bound` limits the argument of f.
    """
    (h,) = state
    return (fs[0](bound(x @ w.T + h @ r.T + b[0] + b[1])),)


def _gru_step(fs: Any, state: Any, x: Tensor, w: Tensor, r: Tensor, b: Any, bound: Any, _: Any, is_linear: int, *__: Any) -> Any:
    """One step of a gated recurrent unit: the new state, in a tuple.

    Args:
      fs: the two activations.
      state: a tuple of the old state.
      x: the input of this step.
      w, r, b: the weights of the input, those of the state, and the biases of both.
      bound: clips the argument of an activation.
      is_linear: true if the reset gate comes after the product with the weights.
    """
    (h,) = state
    n = h.shape[-1]
    inputs, gates = x @ w.T + b[0], h @ r[: 2 * n].T + b[1, : 2 * n]
    update = fs[0](bound(inputs[:, :n] + gates[:, :n]))
    reset = fs[0](bound(inputs[:, n : 2 * n] + gates[:, n:]))
    inner = reset * (h @ r[2 * n :].T + b[1, 2 * n :]) if is_linear else reset * h @ r[2 * n :].T + b[1, 2 * n :]
    return ((1 - update) * fs[1](bound(inputs[:, 2 * n :] + inner)) + update * h,)


def _lstm_step(
    fs: Any, state: Any, x: Tensor, w: Tensor, r: Tensor, b: Any, bound: Any, peephole: Any, _: int, couples: int
) -> Any:
    """One step of a long short-term memory: the new hidden state and the new cell.

    Args:
      fs: the three activations.
      state: the old hidden state and the old cell.
      x: the input of this step.
      w, r, b: the weights of the input, those of the state, and the biases of both.
      bound: clips the argument of an activation.
      peephole: the weights of the cell in the gates, or None.
      couples: true if the forget gate is 1 minus the input gate.
    """
    h, c = state
    n = h.shape[-1]
    i, o, f, g = (part for part in nnp.split(x @ w.T + h @ r.T + b[0] + b[1], 4, 1))
    p_i, p_o, p_f = (0, 0, 0) if peephole is None else nnp.split(peephole, 3)
    i = fs[0](bound(i + p_i * c))
    f = 1 - i if couples else fs[0](bound(f + p_f * c))
    new = f * c + i * fs[1](bound(g))
    o = fs[0](bound(o + p_o * new))
    assert new.shape[-1] == n
    return o * fs[2](new), new


define("RNN", _recurrent(_rnn_step, 1, ["Tanh"], 1))
define("GRU", _recurrent(_gru_step, 3, ["Sigmoid", "Tanh"], 1))
define("LSTM", _recurrent(_lstm_step, 4, ["Sigmoid", "Tanh", "Tanh"], 2))
