"""Import of models of Keras as functions of nabla_mlir, through their backend JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import ImportIRError, TreeError, user_frame
from nabla_mlir.interop.jax import from_jax


def from_keras(model: Any, *specs: Any, training: bool = False) -> Callable[..., Any]:
    """A model of Keras 3 as a function of its weights and of the inputs, for inputs of given shapes and dtypes.

    It is the `stateless_call` of the model. The weights are those of `weights`. Values that are not trainable, such as moving
    averages and the seeds of dropout, are constants, and updates of them in training are not results. The results are flat, as
    in `from_jax`.

    Args:
      model: a `keras.Model`, or a layer, that has been built.
      specs: for each input an array, or an object with a shape and a dtype.
      training: True makes batch norm use the statistics of the batch, and dropout draw, with the same draws at each call.

    Raises:
      ImportIRError: Keras is not installed, has another backend than JAX, or an operation cannot be imported.
      TreeError: at a call, the weights do not have the names of the model.

    Example:
      >>> import nabla_mlir as nm, keras  # doctest: +SKIP
      >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])  # doctest: +SKIP
      >>> f = nm.interop.keras.from_keras(model, nm.spec((2, 3), "float32"))  # doctest: +SKIP
      >>> nm.grad(lambda w: f(w, x).sum())(nm.interop.keras.weights(model))["dense.kernel"].shape  # doctest: +SKIP
      (3, 1)
    """
    try:
        import keras
    except ImportError:
        raise ImportIRError(
            "from_keras requires Keras, got an environment without it.", where=user_frame(), help="pip install 'nabla-mlir[keras]'"
        ) from None
    if keras.backend.backend() != "jax":
        raise ImportIRError(
            f"from_keras requires Keras with the backend JAX, got {keras.backend.backend()}.",
            where=user_frame(),
            help='os.environ["KERAS_BACKEND"] = "jax" before keras is imported.',
        )
    state = [variable.value for variable in model.non_trainable_variables]
    values = weights(model)

    def stateless(trainable: Any, *inputs: Any) -> Any:
        """The results of the model without the new state."""
        return model.stateless_call(trainable, state, *inputs, training=training)[0]

    f = from_jax(stateless, list(values.values()), *specs)

    def applied(weights: Any, *inputs: Any) -> Any:
        """The results of the model for a dict of weights and the inputs; raises TreeError if the model has other weights."""
        if set(weights) != set(values):
            different = ", ".join(sorted(set(weights) ^ set(values)))
            raise TreeError(
                f"a model of Keras requires the weights that it has, got others: {different}.",
                where=user_frame(),
                help="weights(model) gives all of them.",
            )
        return f(*(weights[name] for name in values), *inputs)

    return applied


def weights(model: Any) -> dict[str, np.ndarray]:
    """The trainable weights of a model of Keras, by their paths with dots and without the name of the model.

    Args:
      model: a model, or a layer, that has been built.
    """
    values = {variable.path: np.asarray(variable.value) for variable in model.trainable_variables}
    prefix = f"{model.name}/"
    names = [path.removeprefix(prefix).replace("/", ".") for path in values]
    return dict(zip(names, values.values(), strict=True))
