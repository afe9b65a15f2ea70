"""Functions with dynamic shapes are specialised to the static shapes of their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.regions import functions_of, is_private
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import Pass, register


@register
@dataclass(frozen=True)
class SpecializePass(Pass):
    """Give the arguments of the only public function static types, from which `nabla-normalize` computes all other shapes.

    `inputs` has the type of each argument, as in `inputs=3x4xf32,i64`. An integer with a number, as in `i64=3`, is a size:
    the number replaces the argument wherever it is used. In the function, a conversion from the static type to the former
    one remains of each argument.

    Example: tests/filecheck/passes/specialize.mlir
    """

    name: ClassVar[str] = "nabla-specialize"
    inputs: str = ""  # the type of each argument, as in 3x4xf32,i64=3

    def run(self, module: ir.Operation) -> None:
        """Gives the arguments of the only public function the types and numbers of `inputs`, in place."""
        public = [function for function in functions_of(module).values() if not is_private(function)]
        if len(public) != 1:
            raise PassError(f"{self.name} requires one public function, got {len(public)}.")
        (function,) = public
        block = function.regions[0].blocks[0]
        items = [item for item in self.inputs.split(",") if item]
        if len(items) != len(block.arguments):
            raise PassError(f"{self.name} requires {len(block.arguments)} inputs, got {self.inputs!r}.")
        with ir.InsertionPoint.at_block_begin(block):
            for argument, item in zip(block.arguments, items, strict=True):
                self._specialize(argument, *_parse_input(self.name, item))
        old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        new = ir.FunctionType.get([a.type for a in block.arguments], old.results)
        function.attributes["function_type"] = ir.TypeAttr.get(new)

    def _specialize(self, argument: ir.Value, type: ir.Type, number: int | None) -> None:
        """Gives an argument the static type `type`, or replaces it by a constant if `number` is not None."""
        former = argument.type
        if not _fits(type, former):
            raise PassError(f"{self.name} requires an input of type {former}, got {type}.")
        argument.set_type(type)
        if number is not None:
            shape, dtype = shape_and_dtype(type)
            constant = stablehlo.emit("stablehlo.constant", [], attributes={"value": stablehlo.splat(number, shape, dtype)})
            argument.replace_all_uses_with(constant.results[0])
        elif type != former:
            converted = stablehlo.emit("stablehlo.convert", [argument], results=[former])
            argument.replace_all_uses_with(converted.results[0])
            converted.operands[0] = argument  # the line before has replaced this use, too


def _parse_input(name: str, item: str) -> tuple[ir.Type, int | None]:
    """The type and the number (None if there is none) of an input such as ``3x4xf32`` or ``i64=3``."""
    text, separator, number = item.partition("=")
    try:
        return ir.RankedTensorType(ir.Type.parse(f"tensor<{text}>")), int(number) if separator else None
    except (ir.MLIRError, ValueError):
        raise PassError(f"{name} requires inputs such as 3x4xf32 or i64=3, got {item!r}.") from None


def _fits(type: ir.Type, dynamic: ir.Type) -> bool:
    """True for a static type with the rank, the element type and the known sizes of the type `dynamic`."""
    if not isinstance(dynamic, ir.RankedTensorType) or not type.has_static_shape:
        return False
    if type.rank != dynamic.rank or type.element_type != dynamic.element_type:
        return False
    return all(dynamic.is_dynamic_dim(i) or dynamic.get_dim_size(i) == n for i, n in enumerate(type.shape))
