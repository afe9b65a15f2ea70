"""Donated arguments of `jit`: their leaves, and a function that writes its results into their memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from nabla_mlir.base import pytree, thresholds
from nabla_mlir.base.errors import StaticArgumentError, user_frame
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects.arguments import mark_donated
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.donation import call, check_given_once
from nabla_mlir.runtime.executable import Function
from nabla_mlir.staging.entry import Entry
from nabla_mlir.staging.execution import Code, Endless, Execution, OnDevice, compiled_function, device_of
from nabla_mlir.staging.positions import check_names, positions


class Donation(NamedTuple):
    """The donated arguments, by position and by name."""

    indices: tuple[int, ...]
    names: frozenset[str]

    @staticmethod
    def of(
        fun: Callable[..., Any],
        parameters: list[str] | None,
        argnums: Any,
        argnames: Any,
        static: Sequence[int],
        static_names: set[str],
    ) -> Donation | None:
        """The indices and names of the donated arguments of a function; None if nothing is donated.

        Args:
          fun: the function that `jit` compiles.
          parameters: the names of the function's positional parameters; None if they are not known.
          argnums: `donate_argnums` of `jit`, a number, a sequence or None.
          argnames: `donate_argnames` of `jit`, a string, a sequence or None.
          static: the positions of the static arguments.
          static_names: the names of the static arguments.

        Raises:
          TraceError: a position does not exist.
          StaticArgumentError: there is no argument of such a name, or it is static.
        """
        count = len(parameters) if parameters else None
        indices = positions("jit", () if argnums is None else argnums, count, "donate_argnums", may_repeat=True)
        names = {argnames} if isinstance(argnames, str) else set(argnames or ())
        check_names(fun, names, "donate_argnames")
        names |= {parameters[i] for i in indices} if parameters else set()
        both = [*sorted({*indices} & {*static}), *sorted(names & static_names)]
        if both:
            raise StaticArgumentError(
                f"jit requires that donated arguments are arrays, got {both[-1]!r}, which is static as well.", where=user_frame()
            )
        everywhere = {*indices, *(i for i, name in enumerate(parameters or ()) if name in names)}
        return Donation(tuple(sorted(everywhere)), frozenset(names)) if everywhere or names else None

    def leaves(self, in_spec: pytree.TreeSpec, count: int) -> tuple[int, ...]:
        """The positions of the donated leaves among all leaves of a call, sorted.

        `in_spec` is the structure of ``(args, kwargs)`` of the call, and `count` is the number of its leaves.
        """
        args, kwargs = pytree.unflatten(in_spec, list(range(count)))
        trees = [args[i] for i in self.indices if -len(args) <= i < len(args)]
        trees += [tree for name, tree in kwargs.items() if name in self.names]
        return tuple(sorted(pytree.flatten(trees)[0]))

    def marked(self, entry: Entry, count: int, static: Collection[int]) -> Entry:
        """The entry point of a call with the donated leaves marked.

        Args:
          entry: the entry point, without the static arguments.
          count: the number of arguments that the call gives by position.
          static: the positions of the static ones among them.
        """
        indices = {i % count for i in self.indices if -count <= i < count}
        by_position = [i in indices for i in range(count) if i not in static]
        is_donated = [*by_position, *(name in self.names for name in entry.arguments[len(by_position) :])]
        counts = [below.num_leaves for below in entry.in_spec.children()]
        marks = [mark for mark, count in zip(is_donated, counts, strict=True) for _ in range(count)]
        return replace(entry, donated=tuple(i for i, mark in enumerate(marks) if mark))


class Donating:
    """A function that may reuse the memory of some of its arguments.

    On a CPU it is compiled so that it writes its results to this memory where possible. On other devices, and where NumPy runs
    the function, the arrays are only deleted.
    """

    function = None  # no code to repeat with other arguments: each call donates other arrays

    def __init__(self, code: Code, donation: Sequence[int]):
        self._plain, self._code, self._donation = OnDevice(code, is_jitted=True), code, donation
        self._writing: Function | Endless | None = None  # the compiled function, whose arguments are marked as donated

    def __call__(self, inputs: Sequence[Any], storage: int = 0, types: Any = None) -> list[Array]:
        """The results of the function for the leaves `inputs`; the donated arrays among them are deleted.

        `storage` is the number of last inputs that are memory for results. `types` are the expected result types, or None.
        """
        check_given_once(inputs, self._donation)
        is_compiled = Execution.mode in ("auto", "compile") and not self._code.calls_python
        if is_compiled and device_of(inputs) is None:
            if self._writing is None:
                self._writing = self._compile(inputs)
            return call(self._writing, inputs, self._donation, types)
        results = self._plain(inputs, storage, types)
        for i in self._donation:
            if type(inputs[i]) is Array:
                inputs[i].delete()
        return results

    def _compile(self, first: Sequence[Any]) -> Function | Endless:
        """The function compiled so that its results may be written to the donated arguments; it is checked on `first`, the first
        arguments.
        """
        self._code.lower()
        code = Code(
            clone_module(self._code.module),
            self._code.name,
            is_lowered=True,
            title=self._code.title,
            memory_limit=self._code.memory_limit,
        )
        mark_donated(code.function, self._donation)
        return compiled_function(code, first=self._examples(first))

    def _examples(self, first: Sequence[Any]) -> Sequence[Any] | None:
        """A copy of the arguments `first` of the first call, with which a check runs; None if the donated arrays are large.

        Only the donated arrays are copied. A view of one would share its memory, and a call does not write results to shared
        memory.
        """
        copies = [i for i in self._donation if type(first[i]) is Array]
        if sum(first[i].nbytes for i in copies) > thresholds.CHECKED_DONATION:
            return None
        return [x.own() if i in copies else x for i, x in enumerate(first)]
