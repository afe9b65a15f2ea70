"""Curvature for laplace-torch: backends whose derivatives of the network are computed by nabla_mlir.

``Laplace(model, likelihood, hessian_structure=..., backend=nm.interop.laplace.GGN)``, or `EF` (the empirical Fisher), or `Hessian`;
each is a `laplace.curvature.CurvatureInterface`, created at its first use. ``backend_kwargs={"target": nm.CPU()}`` compiles
at the first call; without, programs are interpreted until compiling them pays.

Source: Daxberger et al., Laplace Redux, NeurIPS 2021; of Kronecker factors Martens and Grosse, ICML 2015, Grosse and Martens, ICML
2016, and Eschenhagen et al., NeurIPS 2023, whose section 3 defines "expand" and "reduce".
"""

from __future__ import annotations

import functools
from collections.abc import MutableMapping
from typing import Any

from nabla_mlir.base.errors import DeployError, ImportIRError, user_frame
from nabla_mlir.interop.laplace_network import Network, network_of
from nabla_mlir.prepared.sum_operator import SumOperator

_BACKENDS = ("EF", "GGN", "Hessian")
_ROWS = 32  # the rows of a Hessian in one product, which needs memory for as many batches; IREE refuses convolutions with hundreds
_ZERO = 1e-6  # smaller eigenvalues do not count for a low rank, as in laplace-torch


def __getattr__(name: str) -> Any:
    if name not in _BACKENDS:
        raise AttributeError(f"module 'nabla_mlir.interop.laplace' has no attribute {name!r}")
    return _backends()[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_BACKENDS])


@functools.cache
def _backends() -> dict[str, Any]:
    """The classes of the backends, which are created once; raises DeployError if laplace-torch is not installed."""
    try:
        import torch
        from laplace.curvature import CurvatureInterface, EFInterface, GGNInterface
        from laplace.utils import Kron
    except ImportError:
        raise DeployError(
            "nm.interop.laplace requires laplace-torch, got an environment without it.",
            where=user_frame(),
            help="pip install 'nabla-mlir[laplace]'",
        ) from None

    class Backend(CurvatureInterface):
        """The base class of the three backends: Jacobians and gradients of samples, and Kronecker factors."""

        def __init__(self, *args: Any, target: Any = None, **options: Any):
            super().__init__(*args, **options)
            self.target = target

        def jacobians(self, x: Any, enable_backprop: bool = False) -> tuple[Any, Any]:
            """The Jacobians of the outputs by the parameters for each sample, and the outputs."""
            return self._chosen(self._network.jacobians(*self._point(x, enable_backprop)))

        def selected_output_jacobians(self, x: Any, outputs: Any, enable_backprop: bool = False) -> tuple[Any, Any]:
            """The rows of the Jacobians for the outputs with these indices, and the outputs."""
            outputs = outputs[:, None] if outputs.ndim == 1 else outputs
            return self._chosen(self._network.selected(*self._point(x, enable_backprop), outputs))

        def gradients(self, x: Any, y: Any) -> tuple[Any, Any]:
            """The gradient of the loss of each sample, and the sum of the losses."""
            rows, losses = self._chosen(self._network.gradients(*self._point(x), y))
            return rows, losses.sum()

        def kron(self, x: Any, y: Any, N: int, *, kfac_approx: str = "expand") -> tuple[Any, Any]:
            """The loss of a batch, and the Kronecker factors of its curvature for each layer.

            `N` is the number of samples of the whole data set. With `kfac_approx` "reduce", the inputs are averaged, and the
            derivatives summed, over the positions at which a layer uses its weight.
            """
            if kfac_approx not in ("expand", "reduce"):
                raise ImportIRError(f"kron requires kfac_approx='expand' or 'reduce', got {kfac_approx!r}.", where=user_frame())
            layers = self._layers()
            vector, constants, x = self._point(x)
            by_shifts, inputs, outputs = self._network.layers(vector, constants, x, _shifts(self._model, layers, x))
            middle = self._middle_matrices(outputs, y)
            factors = []
            for (name, layer), rows in zip(layers.items(), inputs, strict=True):
                a, g = _by_positions(layer, rows.squeeze(1), by_shifts[name].squeeze(2))
                if kfac_approx == "reduce":
                    a, g = a.mean(1, keepdim=True), g.sum(2, keepdim=True)
                # a: the inputs of the layer, g: the derivatives of the outputs by its results, both for each sample n and position
                # t.
                of_outputs = torch.einsum("nctp,nck,nktq->pq", g, middle, g)
                of_inputs = torch.einsum("ntp,ntq->pq", a, a) / (N * a.shape[1])
                if layer.weight.requires_grad:
                    factors.append([of_outputs, of_inputs])
                if layer.bias is not None and layer.bias.requires_grad:
                    factors.append([of_outputs])
            return self.factor * self.lossfunc(outputs, y), self.factor * Kron(factors)

        def _middle_matrices(self, outputs: Any, y: Any) -> Any:
            """The matrix M of each sample in Jᵀ M J, where J is the Jacobian of the outputs."""
            raise NotImplementedError

        @property
        def _network(self) -> Network:
            return network_of(self._model, self.params_dict, self.lossfunc, self.target)

        def _point(self, x: Any, enable_backprop: bool = False) -> tuple[Any, dict[str, Any], Any]:
            """The free parameters as a vector, the constants, and the samples."""
            if self.last_layer:
                _, x = self.model.forward_with_features(x)
            elif isinstance(x, MutableMapping):
                x = dict(x)
            state = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
            constants = {name: value.detach() for name, value in state.items() if name not in self.params_dict}
            vector = torch.cat([p.reshape(-1) for p in self.params])
            if enable_backprop:
                return vector, constants, x
            return vector.detach(), constants, torch.utils._pytree.tree_map(lambda leaf: leaf.detach(), x)

        def _chosen(self, results: Any) -> tuple[Any, Any]:
            """The derivatives by the parameters of the subnetwork, if there is one, and the values unchanged."""
            rows, values = results
            return (rows if self.subnetwork_indices is None else rows[..., self.subnetwork_indices]), values

        def _layers(self) -> dict[str, Any]:
            """The layers with free parameters, by their names; raises ImportIRError if one has no Kronecker factors."""
            layers = {}
            for name, layer in self._model.named_modules():
                if not any(p.requires_grad for p in layer.parameters(recurse=False)):
                    continue
                if type(layer) not in (torch.nn.Linear, torch.nn.Conv2d) or getattr(layer, "groups", 1) != 1:
                    raise ImportIRError(
                        f"kron requires layers Linear and Conv2d without groups, got {layer} under {name!r}.",
                        where=user_frame(),
                        help="hessian_structure='diag' or 'full', or subset_of_weights='last_layer'.",
                    )
                layers[name] = layer
            return layers

    class GGN(Backend, GGNInterface):
        """The generalized Gauss-Newton matrix; with ``stochastic=True`` the Fisher matrix, from `num_samples` drawn labels."""

        num_samples: int

        def full(self, x: Any, y: Any, mc_samples: int | None = None, **options: Any) -> tuple[Any, Any]:
            self.num_samples = mc_samples or self.num_samples
            return super().full(x, y, **options)

        def diag(self, x: Any, y: Any, mc_samples: int | None = None, **options: Any) -> tuple[Any, Any]:
            self.num_samples = mc_samples or self.num_samples
            return super().diag(x, y, **options)

        def kron(self, x: Any, y: Any, N: int, *, kfac_approx: str = "expand", mc_samples: int | None = None) -> tuple[Any, Any]:
            self.num_samples = mc_samples or self.num_samples
            return super().kron(x, y, N, kfac_approx=kfac_approx)

        def _middle_matrices(self, outputs: Any, y: Any) -> Any:
            """The Hessian of the loss by the outputs, for each sample."""
            if self.stochastic:
                return self._get_mc_functional_fisher(outputs) / self.factor
            of_loss = self._get_functional_hessian(outputs)
            if of_loss is None:  # the squared error, whose Hessian is the identity
                of_loss = torch.eye(outputs.shape[1], dtype=outputs.dtype).expand(len(outputs), -1, -1)
            return of_loss / self.factor

    class EF(Backend, EFInterface):
        """The empirical Fisher matrix: the sum of the outer products of the samples' gradients."""

        def _middle_matrices(self, outputs: Any, y: Any) -> Any:
            """The outer product of the gradient of the loss by the outputs, for each sample."""
            slopes = self._network.slopes(outputs, y)
            return slopes[:, :, None] * slopes[:, None, :]

    class Hessian(Backend):
        """The Hessian: the whole matrix, its diagonal, or its `low_rank` eigenvalues with the largest absolute value."""

        def __init__(self, *args: Any, low_rank: int = 10, **options: Any):
            super().__init__(*args, **options)
            self.low_rank = low_rank

        def full(self, x: Any, y: Any, **options: Any) -> tuple[Any, Any]:
            """The loss of a batch, and its whole Hessian, computed in blocks of rows."""
            vector, constants, x = self._point(x)
            count = len(vector)
            directions = torch.eye(-(-count // _ROWS) * _ROWS, count, dtype=vector.dtype)  # the last block is padded with zeros
            parts = [self._network.products(vector, constants, x, y, block) for block in directions.split(_ROWS)]
            return self.factor * parts[0][1], self.factor * torch.cat([rows for rows, _ in parts])[:count]

        def diag(self, x: Any, y: Any, **options: Any) -> tuple[Any, Any]:
            diagonal, loss = self._network.diagonal(*self._point(x), y)
            return self.factor * loss, self.factor * diagonal

        def kron(self, x: Any, y: Any, N: int, **options: Any) -> tuple[Any, Any]:
            """Raises ImportIRError: the Hessian has no Kronecker factors."""
            raise ImportIRError(
                "kron requires a matrix of gradients of samples, got the Hessian, which has no Kronecker factors.",
                where=user_frame(),
                help="backend=nm.interop.laplace.GGN, or EF.",
            )

        def eig_lowrank(self, data_loader: Any) -> tuple[Any, Any, Any]:
            """The eigenvectors and positive eigenvalues of the Hessian over all batches, and the loss."""
            from scipy.sparse.linalg import eigsh

            network = self._network
            points = [(*self._point(x), y) for x, y in data_loader]
            vector, constants, *_ = points[0]
            loss = lambda vector, x, y: network.objective(vector, constants, x, y)  # noqa: E731
            batches = [point[2:] for point in points]
            total = SumOperator(loss, vector.numpy(), batches, short="compile", target=self.target)
            values, vectors = eigsh(total, k=min(self.low_rank, len(vector) - 1))
            is_part = values > _ZERO
            values, vectors = (torch.from_numpy(a[..., is_part].copy()).to(vector) for a in (values, vectors))
            return vectors, self.factor * values, self.factor * vector.new_tensor(total.value)

    backends = {"EF": EF, "GGN": GGN, "Hessian": Hessian}
    for name, backend in backends.items():
        backend.__qualname__ = name  # pickled posteriors find the class by this name
    return backends


def _shifts(module: Any, layers: dict[str, Any], x: Any) -> dict[str, Any]:
    """Zeros with the shape of the result of each layer for one sample, by the layer's name.

    They are added to the results of the layers, so that derivatives by them are derivatives by those results. `module` is called
    with `x` once.
    """
    import torch

    shapes: dict[str, Any] = {}

    def hook(name: str, _: Any, arguments: Any, y: Any) -> None:
        """Stores zeros with the shape of a layer's result; raises ImportIRError at the second use of a layer."""
        if name in shapes:
            raise ImportIRError(
                f"kron requires layers that are used once, got a second use of {name!r}.",
                where=user_frame(),
                help="hessian_structure='diag' or 'full'.",
            )
        shapes[name] = torch.zeros_like(y)

    handles = [layer.register_forward_hook(functools.partial(hook, name)) for name, layer in layers.items()]
    try:
        with torch.no_grad():
            module(torch.utils._pytree.tree_map(lambda leaf: leaf[:1], x))
    finally:
        for handle in handles:
            handle.remove()
    return {name: shapes[name] for name in layers}


def _by_positions(layer: Any, inputs: Any, jacobians: Any) -> tuple[Any, Any]:
    """The inputs and the Jacobians of a layer by the positions at which it uses its weight, such as the pixels of a convolution.

    Their shapes are (samples, positions, features) and (samples, outputs, positions, features).
    """
    import torch

    if isinstance(layer, torch.nn.Linear):
        return inputs.reshape(len(inputs), -1, inputs.shape[-1]), jacobians.reshape(*jacobians.shape[:2], -1, jacobians.shape[-1])
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = torch.nn.functional.pad(inputs, layer._reversed_padding_repeated_twice, mode=mode)
    patches = torch.nn.functional.unfold(padded, layer.kernel_size, layer.dilation, 0, layer.stride)
    return patches.transpose(1, 2), jacobians.flatten(3).transpose(2, 3)
