"""Prepared products on XLA: the entry points of `nm.hvp_module` as functions of a state that is held here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xla

from nabla_mlir.base import pytree
from nabla_mlir.prepared import modules as prepared
from nabla_mlir.prepared.stateful import traced_method
from nabla_mlir.transforms.curvature import hessian_product


class OnXla:
    """The Hessian of a scalar function of a pytree: `update`, then `apply` and `apply_block`."""

    def __init__(self, f: Callable[..., Any], x: Any, *data: Any, block: int = 2):
        names = ["x", *(f"data{i}" for i in range(len(data)))]
        self._methods = prepared.Methods(prepared.Family(hessian_product(f)), names, x, data, block, None)
        self._known = {m.name: m for m in self._methods.all().values()}
        self._compiled: dict[str, tuple[Any, Any]] = {}
        self.state: dict[str, np.ndarray] = {}

    def call(self, name: str, *args: Any) -> Any:
        """An entry point by its name."""
        method = self._known[name]
        if name not in self._compiled:
            module, entry = traced_method(method, self._methods.state)
            self._compiled[name] = xla.compiled(str(module).replace(f"@{name}(", "@main(")), entry
        function, entry = self._compiled[name]
        leaves = pytree.flatten(args)[0]
        outs = function([*(self.state[n] for n in method.reads), *map(np.asarray, leaves)])
        count = len(entry.outputs)
        self.state.update(zip(method.writes, outs[count:], strict=True))
        return pytree.unflatten(entry.out_spec, outs[:count])
