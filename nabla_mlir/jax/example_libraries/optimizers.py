"""First-order optimizers under the names of `jax.example_libraries.optimizers`.

An optimizer is a triple ``(init_fun, update_fun, get_params)`` of functions: from parameters to a state, from a step number, a
gradient and a state to the next state, and from a state to parameters. All are functions of pytrees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nabla_mlir.base import pytree
from nabla_mlir.numpy.creation import zeros, zeros_like
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import asarray
from nabla_mlir.numpy.shapes import broadcast_to
from nabla_mlir.numpy.ufuncs import absolute, maximum, minimum, sqrt, square

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


@dataclass(frozen=True)
class OptimizerState:
    """The state of an optimizer of pytrees: a tuple of arrays for each leaf of the parameters, and their structure."""

    packed_state: tuple[Any, ...]
    tree_def: Any


pytree.register_node(OptimizerState, lambda s: ((s.packed_state,), s.tree_def), lambda tree, xs: OptimizerState(xs[0], tree), False)


def optimizer(opt_maker: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Optimizer]:
    """Decorator: makes an optimizer of single arrays one of pytrees.

    Example:
      >>> init, update, params = sgd(0.5)
      >>> float(params(update(0, {"w": 2.0}, init({"w": 3.0})))["w"])
      2.0
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        """An optimizer of pytrees from one of arrays, with the same arguments."""
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(x0: Any) -> OptimizerState:
            """The state of the optimizer for a tree of parameters: the state of each leaf."""
            leaves, tree = pytree.flatten(x0)
            return OptimizerState(tuple(_as_tuple(init(asarray(leaf))) for leaf in leaves), tree)

        def tree_update(i: Any, grad: Any, state: OptimizerState) -> OptimizerState:
            """The state after step `i`, in which each leaf is updated by its gradient in the tree `grad`."""
            grads = pytree.flatten_like(state.tree_def, grad, "the gradient", "the parameters")
            each = zip(grads, state.packed_state, strict=True)
            return OptimizerState(tuple(_as_tuple(update(i, g, _unpacked(s))) for g, s in each), state.tree_def)

        def tree_params(state: OptimizerState) -> Any:
            """The tree of parameters in a state."""
            return pytree.unflatten(state.tree_def, [get_params(_unpacked(s)) for s in state.packed_state])

        return Optimizer(tree_init, tree_update, tree_params)

    return make


def _as_tuple(state: Any) -> tuple[Any, ...]:
    return tuple(state) if isinstance(state, (tuple, list)) else (state,)


def _unpacked(state: tuple[Any, ...]) -> Any:
    return state if len(state) > 1 else state[0]


# ---------------------------------------------------------------- step sizes
def constant(step_size: Any) -> Schedule:
    """The same step size always."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """``step_size * decay_rate ** (i / decay_steps)``."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """``step_size / (1 + decay_rate * i / decay_steps)``, with whole numbers of decays if `staircase`."""
    return lambda i: step_size / (1 + decay_rate * (i // decay_steps if staircase else i / decay_steps))


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """From `step_size` to `final_step_size` in `decay_steps` steps, by a power of the part that is left."""

    def schedule(i: Any) -> Any:
        left = 1 - minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Sequence[Any], values: Sequence[Any]) -> Schedule:
    """``values[k]`` between the boundaries k - 1 and k."""
    edges, sizes = asarray(boundaries), asarray(values)
    return lambda i: sizes[(i > edges).sum()]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """The function itself, or the constant function of a number."""
    return scalar_or_schedule if callable(scalar_or_schedule) else constant(scalar_or_schedule)


# ---------------------------------------------------------------- gradients
def l2_norm(tree: Any) -> Any:
    """The Euclidean norm of all leaves of a pytree together.

    Example:
      >>> float(l2_norm([3.0, 4.0]))
      5.0
    """
    leaves, _ = pytree.flatten(tree)
    return sqrt(sum(square(asarray(leaf)).sum() for leaf in leaves))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradient, scaled so that its norm is at most `max_norm`."""
    norm = l2_norm(grad_tree)
    leaves, tree = pytree.flatten(grad_tree)
    return pytree.unflatten(tree, [where(norm < max_norm, g, g * (max_norm / norm)) for g in leaves])


# ---------------------------------------------------------------- optimizers
@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent: ``x -= step_size * g``."""
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: Any) -> Any:
    """Gradient descent with momentum: ``v = mass * v + g``, ``x -= step_size * v``."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state (x, v) after one step along the gradient `g`."""
        x, v = state
        v = mass * v + g
        return x - size(i) * v, v

    return lambda x: (x, zeros_like(x)), update, lambda state: state[0]


@optimizer
def nesterov(step_size: Any, mass: Any) -> Any:
    """Gradient descent with Nesterov's momentum: ``v = mass * v + g``, ``x -= step_size * (mass * v + g)``."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * (mass * v + g), v

    return lambda x: (x, zeros_like(x)), update, lambda state: state[0]


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Any:
    """AdaGrad: steps divided by the root of the sum of squared gradients (https://jmlr.org/papers/v12/duchi11a.html)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of Adagrad, which divides the gradient `g` by the root of the sum of its squares."""
        x, total, m = state
        total = total + square(g)
        scaled = g * where(total > 0, 1.0 / sqrt(where(total > 0, total, 1.0)), 0.0)
        m = (1.0 - momentum) * scaled + momentum * m
        return x - size(i) * m, total, m

    return lambda x: (x, zeros_like(x), zeros_like(x)), update, lambda state: state[0]


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Any:
    """RMSProp: steps divided by the root of a running mean of squared gradients."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of RMSProp, which divides the gradient `g` by the root of its mean square."""
        x, mean = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        return x - size(i) * g / sqrt(mean + eps), mean

    return lambda x: (x, zeros_like(x)), update, lambda state: state[0]


@optimizer
def rmsprop_momentum(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9) -> Any:
    """The optimizer RMSProp, with momentum for its steps."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of RMSProp with momentum, which divides the gradient `g` by the root of its mean square."""
        x, mean, m = state
        mean = mean * gamma + square(g) * (1.0 - gamma)
        m = momentum * m + size(i) * g / sqrt(mean + eps)
        return x - m, mean, m

    return lambda x: (x, zeros_like(x), zeros_like(x)), update, lambda state: state[0]


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """The optimizer Adam: steps by running means of the gradient and of its square (https://arxiv.org/abs/1412.6980)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of Adam: the mean gradient divided by the root of the mean square, both without their
        initial bias.
        """
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * square(g) + b2 * v
        step = asarray(i).astype(m.dtype) + 1
        return x - size(i) * (m / (1 - b1**step)) / (sqrt(v / (1 - b2**step)) + eps), m, v

    return lambda x: (x, zeros_like(x), zeros_like(x)), update, lambda state: state[0]


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    """AdaMax, the variant of Adam with the maximum norm (https://arxiv.org/abs/1412.6980)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of Adamax, which divides the mean gradient by the largest recent gradient."""
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = maximum(b2 * v, absolute(g))
        step = asarray(i).astype(m.dtype) + 1
        return x - (size(i) / (1 - b1**step)) * m / (v + eps), m, v

    return lambda x: (x, zeros_like(x), zeros_like(x)), update, lambda state: state[0]


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> Any:
    """The optimizer SM3: AdaGrad with one number for each slice along each axis (https://arxiv.org/abs/1901.11150)."""
    size = make_schedule(step_size)

    def along(total: Any, axis: int, x: Any) -> Any:
        """The numbers `total` of the slices along an axis, broadcast to the shape of x."""
        return broadcast_to(total.reshape(tuple(n if k == axis else 1 for k, n in enumerate(x.shape))), x.shape)

    def init(x: Any) -> Any:
        return (x, zeros_like(x), *(zeros(n, x.dtype) for n in x.shape))

    def update(i: Any, g: Any, state: Any) -> Any:
        """The state after step `i` of SM3, which bounds the sum of squared gradients of an element by maxima along each axis."""
        x, m, *totals = state
        bound = functools.reduce(minimum, [along(t, k, x) for k, t in enumerate(totals)]) if totals else zeros_like(x)
        total = bound + square(g)
        scaled = g * where(total > 0, 1.0 / sqrt(where(total > 0, total, 1.0)), 0.0)
        m = (1.0 - momentum) * scaled + momentum * m
        totals = [total.max(tuple(j for j in range(x.ndim) if j != k)) for k in range(x.ndim)]
        return (x - size(i) * m, m, *totals)

    return init, update, lambda state: state[0]
