"""Generates Python code that repeats an earlier call with new arguments, and checks each argument.

A small function spends half of its time on its arguments and results. Loops over them, and general functions of trees, cost
more than the work on each. So the generated code has separate lines for each argument. These lines flatten dicts, lists and
tuples by their keys and lengths, and call optree for other nodes. If there are many arguments, a loop checks the leaves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iree.runtime import VmRef, VmVariantList

from nabla_mlir.base import pytree
from nabla_mlir.runtime.array import Array
from nabla_mlir.runtime.executable import Function, Types
from nabla_mlir.runtime.transfer import Kind
from nabla_mlir.staging.execution import Execution
from nabla_mlir.table.promotion import Defaults

Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
OTHER = object()  # returned instead of a result if the arguments are of other kinds
_WRITTEN = 32  # the largest number of arguments with separate lines of code; Python compiles a line in 0.1 ms

# The code for one leaf, an array of the device or another value that `enter` converts; fields in braces are variables.
_ARGUMENT = """
if type({leaf}) is Array:
    if {leaf}.shape != {shape} or {leaf}.dtype != {dtype} or {leaf}.device.memory is not memory or {leaf}.weak: return OTHER
    if {leaf}.pending is not None: {leaf}.block_until_ready()
    {leaf}.is_alone = False
    if type(view := {leaf}._view) is not VmRef: view = {leaf}.handle()
elif (view := {enter}({leaf}, where)) is None: return OTHER
inputs.push_ref(view)
"""


def never(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function for calls that cannot be repeated; it returns OTHER."""
    return OTHER


def repetition(
    function: Function,
    in_spec: pytree.TreeSpec,
    kinds: Sequence[Kind],
    constants: Mapping[int | str, Any],
    captures: Sequence[Array],
    out: Any,
    types: Types,
) -> Call:
    """A function that calls compiled code again with new arguments. It returns OTHER if their kinds differ.

    Args:
      function: the code for calls in the current mode and with the current default dtypes.
      in_spec: the structure of the arguments and keyword arguments.
      kinds: the kinds of the leaves of the arguments, which the code gets before the captures.
      constants: arguments by position and by name that are part of the code; those by position are None in the structure.
      captures: the last arguments of the code.
      out: the result of an earlier call, whose structure later results have.
      types: the shapes and dtypes of the leaves of `out`.
    """
    source = _Source(Array=Array, VmRef=VmRef, VmVariantList=VmVariantList, Execution=Execution, Defaults=Defaults, OTHER=OTHER)
    name = source.name
    source.lines(f"if Execution.mode is not {name(Execution.mode)}: return OTHER")
    source.lines(f"if Defaults.float is not {name(Defaults.float)} or Defaults.int is not {name(Defaults.int)}: return OTHER")
    leaves = source.arguments(in_spec, constants)
    source.lines(f"where = {name(function)}.device")
    source.lines("memory = where.memory")
    source.lines(f"inputs = VmVariantList({len(kinds) + len(captures)})")
    if len(leaves) <= _WRITTEN:
        for leaf, kind in zip(leaves, kinds, strict=True):
            positions = {field: name(value) for field, value in kind._asdict().items()}
            source.lines(_ARGUMENT.format(leaf=leaf, **positions))
    else:
        source.lines(f"for leaf, (shape, dtype, enter) in zip([{', '.join(leaves)}], {name(kinds)}, strict=True):")
        source.lines(textwrap.indent(_ARGUMENT.format(leaf="leaf", shape="shape", dtype="dtype", enter="enter"), "    "))
    for capture in captures:
        source.lines(f"inputs.push_ref({name(capture.memory().ref)})")
    source.lines(f"outputs = {name(function)}.outputs(inputs)")
    if len(types) <= _WRITTEN:
        results = [f"Array(outputs.get_as_ref({i}), where, None, False, {name(type_)})" for i, type_ in enumerate(types)]
    else:
        results = [f"*(Array(outputs.get_as_ref(i), where, None, False, type_) for i, type_ in enumerate({name(types)}))"]
    source.lines(f"return {source.tree(out, ', '.join(results))}")
    return source.call()


class _Source:
    """The source code of a function of `args` and `kwargs` under construction, and the values of the names in the code."""

    def __init__(self, **names: Any):
        self._names, self._lines = names, ["def repeat(args, kwargs):"]

    def lines(self, text: str) -> None:
        """Adds lines to the source."""
        self._lines.append(textwrap.indent(text, "    "))

    def name(self, value: Any) -> str:
        """A new name in the generated code, which stands for the Python object `value`."""
        name = f"_{len(self._names)}"
        self._names[name] = value
        return name

    def tree(self, out: Any, row: str) -> str:
        """The code that makes a tree with the structure of `out`, from `row`, the code of its leaves."""
        spec = pytree.flatten_any(out)[1]
        if spec.is_leaf():
            return row
        if spec.type is tuple and row and all(child.is_leaf() for child in spec.children()):
            return f"({row},)"
        if not pytree.is_own(spec):
            return f"{self.name(spec)}.unflatten([{row}])"
        make, metadata = pytree.maker(out)
        return f"{self.name(make)}({self.name(metadata)}, ({row},))"

    def call(self) -> Call:
        """The function, compiled from the source."""
        exec("\n".join(self._lines), self._names)
        repeat: Call = self._names["repeat"]
        return repeat

    def arguments(self, spec: pytree.TreeSpec, constants: Mapping[int | str, Any]) -> list[str]:
        """Adds code that flattens the arguments of a call; returns the names of the variables that hold the leaves.

        `spec` is the structure of ``(args, kwargs)``, and `constants` maps the position or name of each static argument to its
        value. The code returns OTHER if the structure differs from `spec`, or if a static argument is not equal.
        """
        args, kwargs = spec.children()
        fixed = [name for name in constants if isinstance(name, str)]
        count = kwargs.num_children + len(fixed)
        self.lines(f"if {f'len(kwargs) != {count}' if count else 'kwargs'} or len(args) != {args.num_children}: return OTHER")
        positions = [f"args_{i}" for i in range(args.num_children)]
        words = {name: f"kwargs_{i}" for i, name in enumerate([*kwargs.entries(), *fixed])}
        if positions:
            self.lines(f"[{', '.join(positions)}] = args")
        self._assign_items("kwargs", words)
        for position, value in constants.items():
            x, constant = words[position] if isinstance(position, str) else positions[position], self.name(value)
            self.lines(f"if {x} is not {constant} and (type({x}) is not type({constant}) or {x} != {constant}): return OTHER")
        trees = [(child, positions[i]) for i, child in enumerate(args.children()) if i not in constants]
        trees += [(child, words[name]) for child, name in zip(kwargs.children(), kwargs.entries(), strict=True)]
        return [leaf for child, variable in trees for leaf in self._flatten_tree(child, variable)]

    def _flatten_tree(self, spec: pytree.TreeSpec, tree: str) -> list[str]:
        """Adds code that flattens the pytree in the variable `tree`; returns the names of the variables that hold its leaves.

        The code returns OTHER if the pytree does not have the structure `spec`.

        Example: the structure of (1, 2) in `x` adds the line "[x_0, x_1] = x" and gives ["x_0", "x_1"].
        """
        if spec.is_leaf():
            return [tree]
        if spec.type is type(None):
            self.lines(f"if {tree} is not None: return OTHER")
            return []
        if spec.type not in (tuple, list, dict):
            leaves = [f"{tree}_{i}" for i in range(spec.num_leaves)]
            self.lines(f"try: [{', '.join(leaves)}] = {self.name(spec)}.flatten_up_to({tree})")
            self.lines("except (ValueError, TypeError): return OTHER")
            return leaves
        children = spec.children()
        variables = [f"{tree}_{i}" for i in range(len(children))]
        self.lines(f"if type({tree}) is not {spec.type.__name__} or len({tree}) != {len(children)}: return OTHER")
        if spec.type is dict:
            self._assign_items(tree, dict(zip(spec.entries(), variables, strict=True)))
        else:
            self.lines(f"[{', '.join(variables)}] = {tree}")
        return [leaf for child, variable in zip(children, variables, strict=True) for leaf in self._flatten_tree(child, variable)]

    def _assign_items(self, tree: str, variables: Mapping[Any, str]) -> None:
        """Adds code that assigns the items of a dict to variables, by key."""
        if variables:
            items = [f"{tree}[{self.name(key)}]" for key in variables]
            self.lines(f"try: [{', '.join(variables.values())}] = [{', '.join(items)}]")
            self.lines("except KeyError: return OTHER")
