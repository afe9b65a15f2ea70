"""Operations and their regions: the maker of a value, walks over blocks and functions, and operations that own a region."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from iree.compiler import ir

from nabla_mlir.base.errors import VerifyError
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.types import is_static_tensor

A = TypeVar("A", bound=ir.Attribute)
T = TypeVar("T")


class View:
    """A typed view of an operation: its attributes, and errors about them."""

    def __init__(self, op: ir.Operation):
        self.op = op

    def require(self, condition: bool, what: str) -> None:
        """Raises VerifyError unless the condition holds."""
        if not condition:
            raise self.error(what)

    def error(self, what: str) -> VerifyError:
        """The error for a requirement that is not met; callers format types only for this error, because printing takes time."""
        return VerifyError(f"{self.op.name} requires {what}.", where=source_of(self.op.location))

    def integers(self, attribute: str) -> tuple[int, ...]:
        """The integers of the `array<i64: ...>` attribute named `attribute`; raises VerifyError if it is missing or of
        another type.
        """
        self.require(attribute in self.op.attributes, f"the attribute '{attribute}'")
        value = self.value_of(attribute, "array<i64: ...>")
        if not isinstance(value, ir.DenseI64ArrayAttr):
            raise self.error(f"'{attribute}' as array<i64: ...>, got {value}")
        return tuple(value)

    def items(self, attribute: str, kind: type[A], what: str) -> list[A]:
        """The items of a required attribute that is a list of attributes of one kind; `what` names the list in the error."""
        self.require(attribute in self.op.attributes, f"the attribute '{attribute}'")
        value = self.value_of(attribute, what)
        items = self._known(lambda: list(value), attribute, what) if isinstance(value, ir.ArrayAttr) else []
        if not isinstance(value, ir.ArrayAttr) or not all(isinstance(item, kind) for item in items):
            raise self.error(f"'{attribute}' as {what}, got {value}")
        return items

    def value_of(self, attribute: str, what: str) -> ir.Attribute | None:
        """An attribute, or None if there is none; `what` names the expected value in the error."""
        attributes = self.op.attributes
        return self._known(lambda: attributes[attribute], attribute, what) if attribute in attributes else None

    def _known(self, reading: Callable[[], T], attribute: str, what: str) -> T:
        """The result of `reading`, or a VerifyError if the bindings cannot read the attribute."""
        try:
            return reading()
        except TypeError as error:  # the bindings do not know this element type
            raise self.error(f"'{attribute}' as {what}, got one where {error}") from None


class RegionOp(View):
    """A typed view of an operation that owns the function it transforms as a region."""

    name = ""

    def __init__(self, op: ir.Operation):
        if op.name != self.name:
            raise TypeError(f"a view of {self.name} requires that operation, got {op.name}.")
        super().__init__(op)

    @property
    def block(self) -> ir.Block:
        """The body."""
        return self.op.regions[0].blocks[0]

    @property
    def arguments(self) -> list[ir.Value]:
        """The arguments of the body."""
        return list(self.block.arguments)

    @property
    def body(self) -> list[ir.Operation]:
        """The operations of the body without its terminator."""
        return [op.operation for op in self.block.operations][:-1]

    @property
    def terminator(self) -> ir.Operation:
        """The `stablehlo.return` of the body."""
        return last_of(self.block)

    def verify_body(self) -> None:
        """Checks that there is one region, of the form that `verify_region` requires."""
        self.require(len(self.op.regions) == 1, f"one region, got {len(self.op.regions)}")
        self.verify_region(self.op.regions[0], "a body")

    def verify_region(self, region: ir.Region, what: str) -> None:
        """Checks that a region is one block that ends in `stablehlo.return`, and that all tensors at its border are static."""
        self.require(len(region.blocks) == 1, f"a region of one block, got {len(region.blocks)}")
        block = region.blocks[0]
        operations = block.operations
        terminator = operations[len(operations) - 1].operation if len(operations) else None
        self.require(terminator is not None and terminator.name == "stablehlo.return", f"{what} that ends in stablehlo.return")
        assert terminator is not None
        for value in [*self.op.operands, *self.op.results, *block.arguments, *terminator.operands]:
            if not is_static_tensor(value.type):
                raise self.error(f"tensors of static shape, got {value.type}")


def create(
    name: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    attributes: dict[str, ir.Attribute],
    block: ir.Block,
    location: ir.Location | None = None,
) -> ir.Operation:
    """Makes the operation `name` with one region at the insertion point, and moves `block` into the region; returns the operation.

    `results` are the types of the results.
    """
    op = ir.Operation.create(name, operands=operands, results=results, attributes=attributes, regions=1, loc=location)
    block.append_to(op.regions[0])
    return op


def scratch_op(regions: int = 1, *, detached: bool = False) -> ir.Operation:
    """An operation with empty regions as scratch space, at the insertion point or in no block.

    The code in it is moved to its final position, cloned, or dropped with the operation, which the caller erases.
    """
    ip = False if detached else None  # False: in no block; None: at the insertion point
    return ir.Operation.create("ad.scratch", regions=regions, ip=ip)


def scratch_block(types: Sequence[ir.Type] = (), *, detached: bool = False) -> ir.Block:
    """A block of a scratch operation; the caller erases its `owner`."""
    return ir.Block.create_at_start(scratch_op(detached=detached).regions[0], list(types), [ir.Location.unknown()] * len(types))


@contextlib.contextmanager
def scratch(regions: int = 1) -> Iterator[ir.Operation]:
    """A context with a scratch operation at the insertion point, which is erased at the end, also after an error.

    Its code can use the values around it, and is moved out before the end.
    """
    holder = scratch_op(regions)
    try:
        yield holder
    finally:
        holder.erase()


def new_function(name: str, inputs: Sequence[ir.Type], results: Sequence[ir.Type] = ()) -> ir.Block:
    """Makes a function `name` with these types at the insertion point; returns its empty body."""
    kind = ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results)))
    attributes = {"sym_name": ir.StringAttr.get(name), "function_type": kind}
    func = ir.Operation.create("func.func", attributes=attributes, regions=1)
    return ir.Block.create_at_start(func.regions[0], list(inputs), [ir.Location.unknown()] * len(inputs))


def move_here(ops: Sequence[ir.Operation]) -> None:
    """Moves the operations `ops` to the insertion point, in their order."""
    point = ir.InsertionPoint.current
    for op in ops:
        if point.ref_operation is None:
            point.block.append(op)
        else:
            op.move_before(point.ref_operation)


def last_of(block: ir.Block) -> ir.Operation:
    """The last operation of a block, its terminator."""
    return block.operations[len(block.operations) - 1].operation


def made_by(value: ir.Value) -> ir.Operation | None:
    """The operation that has the value as a result; None for an argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def before_reshapes(value: ir.Value) -> ir.Value:
    """The operand of the chain of reshapes that computes a value; the value itself if no reshape does."""
    while (maker := made_by(value)) is not None and maker.name == "stablehlo.reshape":
        value = maker.operands[0]
    return value


def functions_of(module: ir.Operation) -> dict[str, ir.Operation]:
    """The functions of a module by name, in their order."""
    operations = [op.operation for op in module.regions[0].blocks[0].operations]
    return {f.attributes["sym_name"].value: f for f in operations if f.name == "func.func"}


def function_around(op: ir.Operation) -> ir.Operation:
    """The function that contains the operation `op` at any depth, or `op` itself if it is a function."""
    while op.name != "func.func":
        op = op.parent.operation
    return op


def within(block: ir.Block, op: ir.Operation) -> ir.Operation:
    """The operation of a block that is `op`, or contains it."""
    while op.block != block:
        op = op.parent.operation
    return op


def stands_in(block: ir.Block, op: ir.Operation) -> bool:
    """True if the operation `op` is in `block`, or in a region inside it."""
    while op.name != "func.func":
        if op.block == block:
            return True
        op = op.parent.operation
    return False


def check_order(module: ir.Operation) -> None:
    """Checks that values in regions of `ad` and `batch` are defined before their uses; MLIR checks the other regions.

    MLIR treats the region of an unknown operation as a graph without an order.

    Raises:
      VerifyError: a value is used before its definition; the error names its type and its reader.
    """
    for op in nested(module):
        if op.name.startswith(("ad.", "batch.")):
            for region in op.regions:
                for block in region.blocks:
                    _check_order(block)


def _check_order(block: ir.Block) -> None:
    """Raises VerifyError if an operation of a block, or one inside it, reads a value that the block defines later."""
    operations = [op.operation for op in block.operations]
    late = {op: i for i, op in enumerate(operations)}
    for i, op in enumerate(operations):
        for reader in (op, *nested(op)):
            for operand in reader.operands:
                if (maker := made_by(operand)) is not None and late.get(maker, -1) >= i:
                    raise VerifyError(
                        f"{reader.name} requires operands that are made before it, got a {operand.type} of {maker.name} below it.",
                        where=source_of(reader.location),
                    )


def is_private(function: ir.Operation) -> bool:
    """True for a function that nothing outside its module can call."""
    return "sym_visibility" in function.attributes and function.attributes["sym_visibility"].value == "private"


def blocks_of(module: ir.Operation) -> list[ir.Block]:
    """The outermost blocks of the functions of a module."""
    return [block for function in functions_of(module).values() for block in function.regions[0].blocks]


def nested_in_functions(module: ir.Operation) -> list[ir.Operation]:
    """The functions of a module and the operations in them, inner ones before the operation around them; no kernels."""
    return [op for function in functions_of(module).values() for op in (*nested(function), function)]


def blocks_in_functions(module: ir.Operation) -> list[ir.Block]:
    """The blocks of functions and of all regions in them, inner ones before outer ones; no kernels."""
    owners = nested_in_functions(module)
    return [block for owner in owners for region in owner.regions for block in region.blocks]


def nested(op: ir.Operation) -> list[ir.Operation]:
    """The operations in the regions of `op`, inner ones before the operation around them."""
    if not len(op.regions):
        return []
    inside: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:  # notes an operation, and continues with the next one
        inside.append(inner)
        return ir.WalkResult.ADVANCE

    try:
        op.walk(visit, ir.WalkOrder.POST_ORDER)
    except RuntimeError as error:
        raise _interruption(error) from None
    return inside[:-1]  # the last one is `op` itself


def _interruption(error: RuntimeError) -> BaseException:
    """The exception that was raised while MLIR called Python, such as KeyboardInterrupt; `error` itself for other errors.

    MLIR raises a RuntimeError whose last line has the name and the message of the exception.
    """
    name, _, message = str(error).rstrip().rpartition("\n")[2].partition(":")
    kind = getattr(builtins, name, None)
    return kind(message.strip()) if isinstance(kind, type) and issubclass(kind, BaseException) else error
