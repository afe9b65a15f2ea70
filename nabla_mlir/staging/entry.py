"""Entry points of a module, and the base class of the stages that hold them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DtypeError, ShapeError, TreeError, user_frame, writing
from nabla_mlir.base.files import write_files
from nabla_mlir.base.locks import cached_property
from nabla_mlir.base.names import no_attribute
from nabla_mlir.base.plugins import plugin
from nabla_mlir.dialects.context import bytecode_of, parse_module
from nabla_mlir.runtime.manifest import Sparsity
from nabla_mlir.runtime.outline import MOST, outline
from nabla_mlir.staging.specs import ArgInfo, Spec
from nabla_mlir.table.promotion import is_scalar, scalar_array

_LINE = 100  # the largest number of characters of a signature in one line


@dataclass(frozen=True)
class Entry:
    """One entry point: the structure of its arguments and results, and the type of each leaf.

    Attributes:
      name: its name.
      arguments: the names of the arguments.
      in_spec: the structure of the tuple of arguments.
      inputs: the types of the leaves.
      out_spec: the structure of the result.
      outputs: the types of the leaves of the result.
      doc: the first line of the function's docstring.
      storage: the number of last inputs that are memory of the caller, into which results are written.
      sparsity: the positions of the entries, if the result is a sparse matrix.
      by_name: the number of last arguments that were given by name.
      donated: the indices of the leaves whose memory a call may use for its results.
    """

    name: str
    arguments: tuple[str, ...]
    in_spec: pytree.TreeSpec
    inputs: tuple[Spec, ...]
    out_spec: pytree.TreeSpec
    outputs: tuple[Spec, ...]
    doc: str = ""
    storage: int = 0
    sparsity: Sparsity | None = None
    by_name: int = field(default=0, repr=False, compare=False)  # a saved entry does not have these two
    donated: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """The name of each input leaf in the form of Python, for example ``params['w']``."""
        return tuple(_leaf_name(self.arguments, path) for path in pytree.paths(self.in_spec))

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The name of each result leaf."""
        return tuple("result" + path for path in pytree.paths(self.out_spec))

    def describe(self) -> str:
        """A text with the inputs and outputs, one in each line. If there are many, equal ones are joined."""
        lines = [f"{self.name}("]
        lines += outline(self.input_names, self.inputs, "  ")
        lines += [")", *outline(self.output_names, self.outputs, "  -> ")]
        return "\n".join(lines)

    def __str__(self) -> str:
        """The signature in one line; the text of `describe` if it is too long."""
        inputs = ", ".join(map("{}: {}".format, self.input_names, self.inputs))
        line = f"{self.name}({inputs}) -> {', '.join(map(str, self.outputs))}"
        return line if len(line) <= _LINE else self.describe()

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments of a call inside a trace, as tensors or arrays with the traced shapes and dtypes.

        `args` and `kwargs` are the arguments by position and by name. Calls of compiled code are checked in
        nabla_mlir/runtime/module.py, without tensors and optree.

        Raises:
          TreeError, ShapeError, DtypeError: the arguments differ from those of the trace.
        """
        bound = _bind(self, args, kwargs)
        leaves = pytree.flatten_like(self.in_spec, bound, f"{self.name}()", "the arguments it was traced with")
        for leaf in leaves[len(leaves) - self.storage :]:
            if not hasattr(leaf, "__array__"):
                raise DtypeError(f"{self.name}() requires arrays to write to, got {type(leaf).__name__}.")
        for i, (leaf, input_spec) in enumerate(zip(leaves, self.inputs, strict=True)):
            leaves[i] = _check_leaf(leaf, input_spec, self, i)
        return leaves


def _leaf_name(arguments: tuple[str, ...], path: str) -> str:
    """The name of a leaf, from its path, which starts with the index of the argument.

    `arguments` are the names of the arguments. For example, path "[1]['w']" with arguments ("x", "p") gives "p['w']".
    """
    index, _, rest = path[1:].partition("]")
    return arguments[int(index)] + rest


def _bind(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position; raises TreeError if they do not fit the entry point.

    `args` and `kwargs` are the arguments of the call.
    """
    by_name = entry.arguments[len(args) :]  # the names of the arguments that are not given by position
    unknown, missing = set(kwargs) - set(by_name), [n for n in by_name if n not in kwargs]
    if len(args) > len(entry.arguments) or unknown or missing:
        raise TreeError(
            f"{entry.name}() requires the arguments ({', '.join(entry.arguments)}), got {len(args)} by position"
            f"{' and ' + ', '.join(sorted(kwargs)) if kwargs else ''}.",
            where=user_frame(),
        )
    return (*args, *(kwargs[n] for n in by_name))


def _check_leaf(leaf: Any, input_spec: Spec, entry: Entry, i: int) -> Any:
    """Leaf `i` of the arguments as an array; raises an error if its shape or dtype differs from the traced one.

    `input_spec` is the traced shape and dtype, and `entry` is the entry point, for errors.
    """
    if is_scalar(leaf):
        leaf = scalar_array(leaf, input_spec.dtype, f"{entry.name}() requires {input_spec} for {entry.input_names[i]}")
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        leaf = np.asarray(leaf)
    if tuple(leaf.shape) != input_spec.shape:
        raise ShapeError(
            f"{entry.name}() requires {input_spec} for {entry.input_names[i]}, got shape {tuple(leaf.shape)}.",
            where=user_frame(),
            help="trace it again for other shapes.",
        )
    if leaf.dtype != input_spec.dtype:
        raise DtypeError(
            f"{entry.name}() requires {input_spec} for {entry.input_names[i]}, got {leaf.dtype}.",
            where=user_frame(),
            help="convert it with astype.",
        )
    return leaf


@dataclass(frozen=True)
class Stage:
    """A module with its entry points. It can be pickled and copied; the receiver must have the types in its trees."""

    module: ir.Module
    entries: tuple[Entry, ...]

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(f"{type(self).__name__!r} object", name, self)

    @property
    def args_info(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The shape, the dtype and the donation of each argument of the first entry point: by position, and by name.

        Example:
          >>> import nabla_mlir as nm
          >>> args, by_name = nm.jit(lambda x, y: x + y, donate_argnums=1).lower(1.0, y=2.0).args_info
          >>> args[0].donated, by_name["y"].donated
          (False, True)
        """
        entry = self.entries[0]
        infos = [ArgInfo(x.shape, x.dtype, i in entry.donated) for i, x in enumerate(entry.inputs)]
        values = pytree.unflatten(entry.in_spec, infos)
        count = len(values) - entry.by_name
        return tuple(values[:count]), dict(zip(entry.arguments[count:], values[count:], strict=True))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The indices of the donated leaves of the first entry point."""
        return self.entries[0].donated

    def mlir(self) -> str:
        """The IR as text."""
        return str(self.module)

    def as_text(self) -> str:
        """The IR as text, under JAX's name."""
        return self.mlir()

    def save_mlir(self, path: str | Path) -> Path:
        """Writes the IR to a file: bytecode if the name ends in .mlirbc, otherwise text.

        Raises:
          SaveError: the folder does not exist or cannot be written.
        """
        path = Path(path)
        with writing(path):
            write_files({path: bytecode_of(self.module) if path.suffix == ".mlirbc" else self.mlir().encode()})
        return path

    def describe(self) -> str:
        """A text with the inputs and outputs of every entry point."""
        return "\n".join(entry.describe() for entry in self.entries)

    @property
    def digest(self) -> str:
        """A SHA-256 of the IR and of the entry points. Equal stages have equal digests, in every process."""
        parts = [type(self).__name__, self.mlir(), *map(repr, self.entries), *map(repr, self._rest())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _rest(self) -> tuple[Any, ...]:
        """The values of the fields after `module` and `entries`."""
        return tuple(getattr(self, f.name) for f in fields(self)[2:])

    def __dask_tokenize__(self) -> tuple[str, str]:
        return f"nabla_mlir.{type(self).__name__}", self.digest

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), bytecode_of(self.module), self.entries, *self._rest())

    def _repr_html_(self) -> str:
        """The page of the explorer for this stage, as `nm.explain(stage)`."""
        html: str = plugin("explorer").explain(self)._repr_html_()
        return html

    def __str__(self) -> str:
        return self.mlir()

    def __repr__(self) -> str:
        """The title of the stage and its entry points as text, at most MOST lines."""
        lines = [f"  {line}" for entry in self.entries for line in str(entry).splitlines()]
        if len(lines) > MOST:
            lines = [*lines[: MOST - 1], f"  ... and {len(lines) - MOST + 1} lines more ({len(self.entries)} entry points)"]
        return "\n".join([self._title(), *lines])

    def _title(self) -> str:
        """The first line of the repr, which names the stage."""
        return f"{type(self).__name__} module"


def _restore(kind: type[Stage], bytecode: bytes, entries: tuple[Entry, ...], *rest: Any) -> Stage:
    """A stage from its pickled parts."""
    return kind(parse_module(bytecode), entries, *rest)
