"""Derivatives of a module of PyTorch that its curvature needs: for each sample, by the free parameters as one vector."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir import numpy as nnp
from nabla_mlir.interop.torch import from_torch
from nabla_mlir.interop.torch_function import function
from nabla_mlir.jax import tree
from nabla_mlir.transforms import grad, jvp, value_and_grad, vjp, vmap
from nabla_mlir.transforms.special import hessian_diagonal

# The networks of each module, which weak references do not keep alive, by the other captured values.
_NETWORKS: weakref.WeakKeyDictionary[Any, dict[Any, Network]] = weakref.WeakKeyDictionary()


def network_of(module: Any, free: Sequence[str], loss: Callable[..., Any], target: Any) -> Network:
    """The network of a module, stored for the next call; a change of mode, of layers or of free parameters makes a new one.

    Args:
      module: a `torch.nn.Module` whose first axes are samples.
      free: the names of the parameters by which the module is differentiated.
      loss: a module with the arguments results and labels.
      target: where it runs.
    """
    key = tuple(free), repr(module), tuple(m.training for m in module.modules()), repr(loss), target
    networks = _NETWORKS.setdefault(module, {})
    if key not in networks:
        networks[key] = Network(module, free, loss, target)
    return networks[key]


class Network:
    """Functions of a vector of the free parameters, of constants (other parameters and buffers), and of samples, on tensors.

    Parameters and constants are arguments, so that no new program is needed after training. Each sample is a separate batch.

    Attributes:
      jacobians: ``(vector, constants, x) -> (samples, outputs, parameters), outputs``.
      selected: the same for outputs of given numbers, another argument of shape (samples, count).
      gradients: ``(vector, constants, x, y) -> (samples, parameters), losses``.
      products: ``(vector, constants, x, y, directions) ->`` rows with the Hessian of the loss times each direction, and the loss.
      diagonal: ``(vector, constants, x, y) ->`` the diagonal of that Hessian, and the loss.
      layers: ``(vector, constants, x, shifts) ->`` Jacobians by shifts of the layers' results, inputs of layers, and outputs.
      slopes: ``(outputs, y) ->`` derivatives of the loss by the outputs.
    """

    def __init__(self, module: Any, free: Sequence[str], loss: Callable[..., Any], target: Any):
        """Imports the module and the loss, and makes the functions; each is compiled at its first call.

        `free` are the names of the parameters that are estimated, and `loss` is a function of results and targets.
        """
        import torch

        ref: Any = weakref.ref(module)  # so that the functions do not keep the module alive

        def shifted(state: Any, x: Any, shifts: Any) -> Any:
            """The results of the module with `shifts` added to the results of layers, and the inputs of these layers."""
            module, inputs = ref(), {}
            layers = dict(module.named_modules())

            def hook(name: str, _: Any, arguments: Any, y: Any) -> Any:
                """Stores the input of a layer, and adds the shift to its result."""
                inputs[name] = arguments[0]
                return y + shifts[name]

            handles = [layers[name].register_forward_hook(functools.partial(hook, name)) for name in shifts]
            try:
                y = torch.func.functional_call(module, state, (x,))
            finally:
                for handle in handles:
                    handle.remove()
            return y, [inputs[name] for name in shifts]

        self._shapes = {name: tuple(p.shape) for name, p in module.named_parameters() if name in set(free)}
        self._call = from_torch(lambda state, x: torch.func.functional_call(ref(), state, (x,)))
        self._shifted, self._loss = from_torch(shifted), from_torch(loss)
        in_torch = functools.partial(function, target=target)  # a function of PyTorch's tensors
        self.jacobians, self.selected = in_torch(self._jacobians), in_torch(self._selected)
        self.gradients, self.products = in_torch(self._gradients), in_torch(self._products)
        self.diagonal = in_torch(lambda *args: (hessian_diagonal(self.objective)(*args), self.objective(*args)))
        self.layers, self.slopes = in_torch(self._layers), in_torch(vmap(grad(self._loss_of_one)))

    def objective(self, vector: Any, constants: Any, x: Any, y: Any) -> Any:
        """The loss of a batch: the sum of the losses of its samples.

        Args:
          vector, constants: the free parameters, and the other parameters with the buffers.
          x, y: samples and their labels.
        """
        return nnp.sum(vmap(lambda x, y: self._loss_of_one(self._value(vector, constants, x), y))(x, y))

    def _loss_of_one(self, value: Any, y: Any) -> Any:
        return self._loss(value[None], y[None])

    def _state(self, vector: Any, constants: Any) -> dict[str, Any]:
        """The parameters and buffers by name, from the vector of the free parameters and the constants."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])
        parts = nnp.split(vector, ends[:-1].tolist())
        free = {name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
        return {**constants, **free}

    def _value(self, vector: Any, constants: Any, x: Any) -> Any:
        return self._call(self._state(vector, constants), _batch(x))[0]

    def _output_and_pullback(self, vector: Any, constants: Any, x: Any) -> Any:
        return vjp(lambda vector: self._value(vector, constants, x), vector)

    def _jacobians(self, vector: Any, constants: Any, x: Any) -> Any:
        """The Jacobians of the outputs of each sample in `x` by the parameters `vector`, and the outputs."""

        def of_one(x: Any) -> Any:
            """The Jacobian of the output for one sample, one pullback for each row, and the output."""
            y, pull = self._output_and_pullback(vector, constants, x)
            return vmap(lambda seed: pull(seed)[0])(nnp.eye(y.size, dtype=y.dtype)), y

        return vmap(of_one)(x)

    def _selected(self, vector: Any, constants: Any, x: Any, outputs: Any) -> Any:
        """The rows of the Jacobian of each sample in `x` for the outputs with the numbers `outputs`, and all outputs."""

        def of_one(x: Any, outputs: Any) -> Any:
            """The requested rows of the Jacobian for one sample, and its output."""
            y, pull = self._output_and_pullback(vector, constants, x)
            return vmap(lambda i: pull((nnp.arange(y.size) == i).astype(y.dtype))[0])(outputs), y

        return vmap(of_one)(x, outputs)

    def _gradients(self, vector: Any, constants: Any, x: Any, y: Any) -> Any:
        """The gradient of the loss of each sample by the parameters `vector`, and the losses; `y` are the labels."""

        def of_one(x: Any, y: Any) -> Any:
            """The gradient of the loss of one sample, then the loss: `value_and_grad` has them in the other order."""
            return value_and_grad(lambda vector: self._loss_of_one(self._value(vector, constants, x), y))(vector)[::-1]

        return vmap(of_one)(x, y)

    def _products(self, vector: Any, constants: Any, x: Any, y: Any, directions: Any) -> Any:
        """The Hessian of the loss by the parameters `vector`, times each of the directions, and the loss."""
        slopes = value_and_grad(lambda vector: self.objective(vector, constants, x, y))
        along = lambda direction: jvp(slopes, (vector,), (direction,))  # noqa: E731
        (losses, _), (_, rows) = vmap(along)(directions)
        return rows, losses[0]

    def _layers(self, vector: Any, constants: Any, x: Any, shifts: Any) -> Any:
        """The Jacobians of the outputs of each sample by `shifts` of the layers' results, the inputs of the layers, and the
        outputs.
        """

        def of_one(x: Any) -> Any:
            """For one sample: the Jacobian of the output by the result of each layer, the inputs of the layers, and the output.

            The shifts are zeros that are added to these results.
            """

            def value(shifts: Any) -> Any:
                """The output for one sample, and the inputs of the layers."""
                y, *inputs = self._shifted(self._state(vector, constants), _batch(x), shifts)
                return y[0], inputs

            y, pull, inputs = vjp(value, shifts, has_aux=True)
            return vmap(lambda seed: pull(seed)[0])(nnp.eye(y.size, dtype=y.dtype)), inputs, y

        return vmap(of_one)(x)


def _batch(x: Any) -> Any:
    """One sample as a batch."""
    return tree.map(lambda leaf: leaf[None], x)
