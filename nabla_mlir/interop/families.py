"""A function of flat arrays with its derivatives and maps of all orders (a *family*), in the form that other frameworks need."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.base.locks import cached_property, new_lock
from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.prepared.instant import load_prepared
from nabla_mlir.runtime import Module, load
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.stages import Lowered, trace
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.transforms import jvp, vjp, vmap

Axes = tuple[int | None, ...]


class Program:
    """A function for arguments of fixed shapes and dtypes.

    Attributes:
      inputs, outputs: the specs of the arguments and of the results.
    """

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]

    def __init__(self, f: Callable[..., Any], inputs: Sequence[Spec], target: Any):
        """Traces the function for arguments with these specs; it is compiled or loaded at the first call.

        `inputs` are the specs of `f`'s arguments.
        """
        stage = trace(f, *inputs, name="main")
        entry = stage.entries[0]
        self.inputs, self.outputs, self._tree = tuple(inputs), tuple(entry.outputs), entry.out_spec
        self._types = [(spec.shape, spec.dtype) for spec in self.outputs]
        self._stage, self._target, self._lock = stage, target, new_lock()

    def unflatten(self, results: Sequence[Any]) -> Any:
        """The results as the function's pytree."""
        return pytree.unflatten(self._tree, results)

    def __call__(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """The results as arrays of NumPy that the caller may write to.

        Args:
          arrays: arrays of NumPy with the specs of `inputs`; large arrays are not copied.
        """
        results: list[np.ndarray] = []
        for result in self._run([_direct(x) for x in arrays], 0, self._types):
            is_large = result.nbytes >= thresholds.LENT_RESULT
            host = result.own(copy=not is_large)
            is_shared = is_large and any(np.may_share_memory(host, other) for other in (*arrays, *results))
            results.append(host.copy() if is_shared else host)
        return results

    @cached_property
    def _run(self) -> Callable[..., list[Array]]:
        """The loaded function, which takes and returns flat arrays."""
        with self._lock:
            return load_prepared(self._stage.lower(), "", (), self._target).executable.function("main")


def _direct(x: np.ndarray) -> Any:
    """An argument that shares the memory of a large array; a small array is passed as it is, because a copy takes less time."""
    return Array.from_numpy(x, copy=False) if x.nbytes >= thresholds.LENT_RESULT else x


class Family:
    """A function of flat arrays for all shapes, with its derivatives and maps, which are made when they are first needed.

    Args:
      f: a function of `count` arrays with a pytree of arrays as its result.
      count: the number of arguments.
      target: where it runs; None interprets it until compiling it pays.
    """

    count: int
    target: Any

    def __init__(self, f: Callable[..., Any], count: int, target: Any = None):
        """Stores the function; programs, derivatives and maps are made when they are first requested."""
        self.count, self.target = count, target
        self._f = f
        self._programs: dict[tuple[Spec, ...], Program] = {}
        self._by_kinds: dict[Any, Program] = {}
        self._families: dict[Any, Family] = {}

    def at(self, kinds: Any, specs_of: Callable[[Any], tuple[Spec, ...]]) -> Program:
        """The function for arguments of given shapes and dtypes.

        Args:
          kinds: the types of the arguments in the framework; they are the key of the stored programs.
          specs_of: returns the specs of such types.
        """
        program = self._by_kinds.get(kinds)
        if program is None:
            inputs = specs_of(kinds)
            if inputs not in self._programs:
                self._programs[inputs] = Program(self._f, inputs, self.target)
            program = self._by_kinds[kinds] = self._programs[inputs]
        return program

    def pulled(self, wrt: tuple[int, ...], active: int) -> Family:
        """``(*inputs, *cotangents) -> cotangents`` of the inputs at `wrt`, for cotangents of the differentiable results.

        Args:
          wrt: positions of differentiable arguments.
          active: the number of differentiable results.
        """
        return self._derived(("pulled", wrt), self.count + active, lambda: lambda *args: self._pull(wrt, args))

    def pushed(self, wrt: tuple[int, ...]) -> Family:
        """``(*inputs, *tangents) -> tangents`` of the differentiable results, for tangents of the inputs at `wrt`.

        Args:
          wrt: positions of differentiable arguments.
        """
        return self._derived(("pushed", wrt), self.count + len(wrt), lambda: lambda *args: self._push(wrt, args))

    def mapped(self, axes: Axes) -> Family:
        """`vmap` of the function over axes of its arguments; the new axis of each result is axis 0.

        Args:
          axes: the mapped axis of each argument; None for an argument that is not mapped.
        """
        return self._derived(("mapped", axes), self.count, lambda: vmap(lambda *args: self.leaves(args), in_axes=axes))

    def leaves(self, args: Sequence[Any]) -> list[Any]:
        """The results as a list of tensors, inside a trace.

        Args:
          args: the arguments, as tensors.
        """
        return [as_tensor(leaf) for leaf in pytree.flatten(self._f(*args))[0]]

    def __reduce__(self) -> tuple[Any, ...]:
        return Family, (self._f, self.count, self.target)  # the receiver compiles the programs again

    def _derived(self, key: Any, count: int, make: Callable[[], Callable[..., Any]]) -> Family:
        """The family of a derivative or a map, which `make` makes at the first request for this key."""
        family = self._families.get(key)
        if family is None:
            family = self._families[key] = Family(make(), count, self.target)
        return family

    def _active(self, wrt: tuple[int, ...], inputs: Sequence[Any]) -> Callable[..., list[Any]]:
        """The differentiable results as a function of the inputs at `wrt`; the other inputs are constant."""

        def active(*parts: Any) -> list[Any]:
            """The differentiable results for these values of the inputs at `wrt`."""
            values = dict(zip(wrt, parts, strict=True))
            results = self.leaves([values.get(i, x) for i, x in enumerate(inputs)])
            return [y for y in results if is_differentiable(y.dtype)]

        return active

    def _pull(self, wrt: tuple[int, ...], args: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs at `wrt`; `args` are the inputs, then the cotangents of the differentiable results."""
        inputs, cotangents = args[: self.count], args[self.count :]
        _, pull = vjp(self._active(wrt, inputs), *(inputs[i] for i in wrt))
        return list(pull(list(cotangents)))

    def _push(self, wrt: tuple[int, ...], args: Sequence[Any]) -> list[Any]:
        """The tangents of the differentiable results, from the inputs and the tangents of the inputs at `wrt`.

        `args` has the inputs, then the tangents.
        """
        inputs, tangents = args[: self.count], args[self.count :]
        return jvp(self._active(wrt, inputs), tuple(inputs[i] for i in wrt), tuple(tangents))[1]


def of_arrays(f: Callable[..., Any], tree: Any, numbers: Sequence[Any]) -> Callable[..., Any]:
    """The function of only those leaves of its arguments that are arrays; the numbers among the leaves are constants.

    Args:
      f: a function.
      tree: the structure of its arguments and its keywords.
      numbers: for each leaf None if it is an array, otherwise its kind and the number.
    """

    def flat(*arrays: Any) -> Any:
        """The result of `f` for the leaves that are arrays, with the numbers at their positions."""
        parts = iter(arrays)
        args, kwargs = pytree.unflatten(tree, [next(parts) if number is None else number[1] for number in numbers])
        return f(*args, **kwargs)

    return flat


def callable_of(who: str, source: Any, entry: str | None) -> Callable[..., Any]:
    """A function that can be differentiated: `source` if it is a function, otherwise one of its entry points, by its StableHLO.

    Args:
      who: the name of the calling function, for errors.
      source: a function; or an artifact, loaded or as a path, or a stage.
      entry: the name of the entry point; needed if there are several.

    Raises:
      TraceError: the entry point does not exist, or several exist and no name is given; or it reads or writes a state.
      DeployError: the artifact was saved without its StableHLO.
    """
    if isinstance(source, (str, os.PathLike)):
        source = load(source)
    if isinstance(source, Compiled):
        source = source.loaded
    if isinstance(source, Module):
        source = source.lower()
    if isinstance(source, Lowered):
        f = source.function(entry)
        if source.has_state(entry):
            raise TraceError(
                f"{who} requires an entry point without state, got {entry or source.entries[0].name}.",
                where=user_frame(),
                help="give the function that the artifact was made from.",
            )
        return f
    if not callable(source) or entry is not None:
        kind = type(source).__name__ + ("" if entry is None else f" and entry={entry!r}")
        raise TraceError(f"{who} requires a function, or an artifact or stage with an entry, got {kind}.", where=user_frame())
    return source
