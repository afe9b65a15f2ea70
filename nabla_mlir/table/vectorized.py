"""Vectorised tensors: values with named batch axes. An operation on them becomes a map over those axes.

The operation is emitted as a `batch.vmap` over the axes; each operand states which of them it carries. A function
that runs *per entry* becomes one such map: inside it tensors have no named axes, and a vectorised tensor from outside
becomes an argument of the map when it is first used.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence

from iree.compiler import ir

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.batch import NOT_CARRIED, VmapOp, free_axes
from nabla_mlir.dialects.regions import scratch
from nabla_mlir.dialects.types import tensor_type
from nabla_mlir.table.axis_order import met, orders_of_results
from nabla_mlir.table.tensor import NamedAxes, Scope, Tensor, current_scope, wrap


class VectorizedTensor(Tensor):
    """A tensor with named leading axes. Operations do not see these axes: they act on each entry along them.

    Attributes:
      value: the whole array; its named axes lead.
      axes: the names and sizes of the named axes, in order.
      shape: the shape of one entry.
    """

    __slots__ = ("axes",)
    axes: NamedAxes
    shape: tuple[int, ...]

    def __init__(self, value: ir.Value, axes: NamedAxes, scope: Scope | None = None):
        super().__init__(value, scope)
        self.axes = tuple(axes)
        self.shape = self.shape[len(self.axes) :]

    @property
    def vectorized_axes(self) -> dict[str, int]:
        """The sizes of the named axes, in order."""
        return dict(self.axes)

    def __repr__(self) -> str:
        names = ", ".join(f"{name}: {size}" for name, size in self.axes)
        return f"Tensor({self.dtype}[{','.join(map(str, self.shape))}] for each of {names})"


def with_axes(x: Tensor, axes: NamedAxes) -> Tensor:
    """The tensor whose first axes get the names in `axes`."""
    return VectorizedTensor(x.value, axes, x.scope) if axes else Tensor(x.value, x.scope)


def separate(x: Tensor) -> Tensor:
    """A separate tensor of the current scope with the same value, because the program may assign to either."""
    other = VectorizedTensor(x.value, x.axes, current_scope()) if x.axes else Tensor(x.value, current_scope())
    other.weak = x.weak
    return other


def whole(x: Tensor) -> Tensor:
    """The tensor with its named axes as ordinary leading axes."""
    return Tensor(x.value, x.scope)


def union(axes: Sequence[NamedAxes], what: str = "an operation") -> NamedAxes:
    """All axes in order of first appearance; an axis of size 1 stretches to the size of another with its name.

    Raises ShapeError, in which `what` is the subject, if other sizes differ.
    """
    sizes: dict[str, int] = {}
    for name, size in itertools.chain(*axes):
        known_size = sizes.get(name, 1)
        if known_size != size and 1 not in (known_size, size):
            raise ShapeError(
                f"{what} requires one size for each vectorised axis, got {known_size} and {size} for '{name}'.",
                where=user_frame(),
                help="rename one of the axes with nm.revectorize for all pairs of entries.",
            )
        sizes[name] = size if known_size == 1 else known_size
    return tuple(sizes.items())


def map_over(block: ir.Block, operands: Sequence[Tensor], axes: NamedAxes, outs: int) -> list[Tensor]:
    """Emits the map of a block over named axes; returns its results.

    Every result carries all axes, in the order in which the operations that compute it meet them. The map takes the block over.

    Args:
      block: a block whose arguments are entries of the operands.
      operands: tensors with some of the axes.
      axes: the names and sizes of the axes.
      outs: the number of results.
    """
    free = {name for op in block.operations for name in free_axes(op.operation)}
    # The symbol of an axis is its name, with a number if the block uses the name for an axis of an outer map.
    symbols = [next(s for s in itertools.chain([n], (f"{n}_{k}" for k in itertools.count(1))) if s not in free) for n, _ in axes]
    values, positions = [], []
    for x in operands:
        value, own_axes = _without_stretched(x, dict(axes))
        values.append(value)
        positions.append([own_axes.index(name) if name in own_axes else NOT_CARRIED for name, _ in axes])
    names = [name for name, _ in axes]
    if len(axes) > 1:
        orders = [met([order, names]) for order in orders_of_results(block, [[n for n, _ in x.axes] for x in operands])]
    else:
        orders = [names] * outs
    out_positions = [[order.index(name) for name in names] for order in orders]
    op = VmapOp.build(values, block, symbols, [size for _, size in axes], positions, out_positions).op
    sizes = dict(axes)
    return [
        VectorizedTensor(r, tuple((n, sizes[n]) for n in order), current_scope())
        for r, order in zip(op.results, orders, strict=True)
    ]


def _without_stretched(x: Tensor, sizes: dict[str, int]) -> tuple[ir.Value, list[str]]:
    """The value without its named axes of size 1 that stretch to a larger size, and the names of its other named axes.

    `sizes` maps each name to the size in the result. Example: axes a: 1, b: 3 and sizes a: 2, b: 3 give a value with the axis b.
    """
    axes = [(name, size) for name, size in x.axes if size == sizes[name]]
    if len(axes) == len(x.axes):
        return x.value, [name for name, _ in axes]
    type = tensor_type((*(size for _, size in axes), *x.shape), x.dtype)
    return stablehlo.emit("stablehlo.reshape", [x.value], results=[type]).results[0], [name for name, _ in axes]


def apply_per_entry(make: Callable[[list[Tensor]], Sequence[Tensor]], operands: Sequence[Tensor]) -> list[Tensor]:
    """The results of `make`, emitted as a map over all named axes of the operands.

    `make` gets the entries of the operands, tensors without named axes. Without named axes, `make` is called directly.
    """
    operands = [enter(x) for x in operands]
    axes = union([x.axes for x in operands])
    if not axes:
        return list(make(operands))
    positions = [i for i, x in enumerate(operands) if x.axes]
    types = [tensor_type(operands[i].shape, operands[i].dtype) for i in positions]
    with scratch() as holder:
        block = ir.Block.create_at_start(holder.regions[0], types, [ir.Location.unknown()] * len(types))
        entries = list(operands)
        for i, argument in zip(positions, block.arguments, strict=True):
            entries[i] = wrap(argument)
        with ir.InsertionPoint(block):
            outs = make(entries)
            stablehlo.emit("stablehlo.return", [out.value for out in outs], results=[])
        return map_over(block, [operands[i] for i in positions], axes, len(outs))


# ---------------------------------------------------------------- functions that run per entry


class TakesApartError(Exception):
    """A function that runs per entry reads the named axes themselves."""


class Entries:
    """The map that results from a function that runs per entry, while the function is traced.

    Attributes:
      scope: the scope of the function.
      block: the body of the map.
      operands: the vectorised tensors that the function has used; each has an argument of the block.
      inside: names of axes that were made inside; a name must not denote two axes.
    """

    scope: Scope | None
    block: ir.Block

    def __init__(self, scope: Scope | None, block: ir.Block):
        """Opens the trace of one entry in `block`, inside of `scope` or of no other scope."""
        self.scope, self.block = scope, block
        self.operands: list[Tensor] = []
        self.arguments: dict[tuple[ir.Value, NamedAxes], Tensor] = {}
        self.inside: set[str] = set()

    @property
    def axes(self) -> NamedAxes:
        """The axes of all tensors that have entered."""
        return union([x.axes for x in self.operands])

    def is_outside(self, x: Tensor) -> bool:
        """True if the tensor was made outside of the map."""
        scope = x.scope
        while scope is not None and scope is not self.scope:
            scope = scope.parent
        return scope is None

    def enter(self, x: Tensor) -> Tensor:
        """The argument of the map that stands for one entry of the tensor `x` from outside; each tensor has one argument.

        Raises TakesApartError if an axis of `x` has been named inside the map.
        """
        if not self.inside.isdisjoint(dict(x.axes)):
            raise TakesApartError
        key = (x.value, x.axes)
        if key not in self.arguments:
            argument = self.block.add_argument(tensor_type(x.shape, x.dtype), ir.Location.unknown())
            self.operands.append(x)
            self.arguments[key] = Tensor(argument, self.scope)
        return self.arguments[key]


class _Open(threading.local):
    entries: tuple[Entries, ...] = ()


_open = _Open()


@contextlib.contextmanager
def per_entry_scope() -> Iterator[Entries]:
    """Opens a map in the block at the insertion point; this is the block of a region that is being traced."""
    outer = _open.entries
    entries = Entries(current_scope(), ir.InsertionPoint.current.block)
    _open.entries = (*outer, entries)
    try:
        yield entries
    finally:
        _open.entries = outer


def enter(x: Tensor) -> Tensor:
    """The tensor as the open functions that run per entry see it: its entry, if it was made outside of them."""
    for entries in _open.entries if x.axes else ():
        if x.axes and entries.is_outside(x):
            x = entries.enter(x)
    return x


def unwrapped(x: Tensor) -> Tensor:
    """The tensor `x` unchanged, after a check that its named axes may be read here.

    Raises TakesApartError inside a function that runs per entry of one of these axes.
    """
    for entries in _open.entries:
        if entries.operands or (x.axes and entries.is_outside(x)):
            raise TakesApartError
    return x


def name_inside(names: Sequence[str]) -> None:
    """Records that a function which runs per entry names axes of its own."""
    for entries in _open.entries:
        if not set(dict(entries.axes)).isdisjoint(names):
            raise TakesApartError
        entries.inside.update(names)
