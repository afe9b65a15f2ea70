"""Donated arguments of `jit`: their leaves, and a function that writes its results into their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nabla_mlir import pytree, thresholds
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects.arguments import give_away
from nabla_mlir.errors import TraceError, user_frame
from nabla_mlir.locks import cached_property
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.donation import call, check_given_once
from nabla_mlir.runtime.executable import Function
from nabla_mlir.staging.execution import Code, Endless, Execution, OnDevice, compiled_function, device_of
from nabla_mlir.staging.positions import positions


class Donation(NamedTuple):
    """The donated arguments, by position and by name."""

    places: tuple[int, ...]
    names: frozenset[str]

    @staticmethod
    def of(
        parameters: list[str] | None, argnums: Any, argnames: Any, static: Sequence[int], static_names: set[str]
    ) -> Donation | None:
        """The donation that arguments of `jit` describe; None if nothing is donated.

        Raises:
          TraceError: there is no such argument, or it is static.
        """
        places = positions("jit", () if argnums is None else argnums, len(parameters) if parameters else None, "donate_argnums")
        names = {argnames} if isinstance(argnames, str) else set(argnames or ())
        names |= {parameters[i] for i in places} if parameters else set()
        both = [*sorted({*places} & {*static}), *sorted(names & static_names)]
        if both:
            raise TraceError(f"jit requires that donated arguments are arrays, got {both[-1]!r}, which is static as well.",
                             where=user_frame())  # fmt: skip
        everywhere = {*places, *(i for i, name in enumerate(parameters or ()) if name in names)}
        return Donation(tuple(sorted(everywhere)), frozenset(names)) if everywhere or names else None

    def leaves(self, in_spec: pytree.TreeSpec, count: int) -> tuple[int, ...]:
        """The indices of the donated leaves in a call with arguments of this structure."""
        args, kwargs = pytree.unflatten(in_spec, list(range(count)))
        trees = [args[i] for i in self.places if -len(args) <= i < len(args)]
        trees += [tree for name, tree in kwargs.items() if name in self.names]
        return tuple(sorted(pytree.flatten(trees)[0]))


class Donating:
    """A function that may reuse the memory of some of its arguments.

    On a CPU it is compiled so that it writes its results there where possible. On other devices, and where NumPy runs
    it, the arrays are only deleted.
    """

    function = None  # each call gives away other arrays

    def __init__(self, code: Code, donation: Sequence[int]):
        self._plain, self._code, self._donation = OnDevice(code, is_jitted=True), code, donation
        self._first: Sequence[Any] | None = None  # the arguments of the call that compiles it, on which the code is checked

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results. The donated arrays are deleted."""
        check_given_once(inputs, self._donation)
        is_compiled = Execution.mode in ("auto", "compile") and not self._code.calls_python
        if is_compiled and device_of(inputs) is None:
            self._first = inputs
            writing, self._first = self._writing, None
            return call(writing, inputs, self._donation, types)
        results = self._plain(inputs, storage, types)
        for i in self._donation:
            if type(inputs[i]) is Array:
                inputs[i].delete()
        return results

    @cached_property
    def _writing(self) -> Function | Endless:
        """The compiled function, whose arguments are marked as donated."""
        self._code.lower()
        code = Code(clone_module(self._code.module), self._code.name, is_lowered=True, title=self._code.title,
                    memory_limit=self._code.memory_limit)  # fmt: skip
        give_away(code.function, self._donation)
        return compiled_function(code, first=self._examples())

    def _examples(self) -> Sequence[Any] | None:
        """The arguments of the first call for its check: copies of the donated arrays, since a view would keep their memory.

        None if they are large.
        """
        first = self._first or ()
        copies = [i for i in self._donation if first and type(first[i]) is Array]
        if not first or sum(first[i].nbytes for i in copies) > thresholds.CHECKED_DONATION:
            return None
        return [x.own() if i in copies else x for i, x in enumerate(first)]
