"""The dialect `ad`: differentiate this region. See ad.irdl.mlir for its definition."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import RegionOp, create
from nabla_mlir.dialects.types import is_differentiable, shape_and_dtype


def _i64s(values: Sequence[int]) -> ir.Attribute:
    """The attribute `array<i64: ...>` of these integers."""
    return ir.DenseI64ArrayAttr.get(list(values), context())


def is_differentiable_type(type: ir.Type) -> bool:
    """True if a tensor of this type can have a derivative."""
    return is_differentiable(shape_and_dtype(type)[1])


class Differentiated(RegionOp):
    """An operation that names its active arguments in `wrt` and its differentiated results in `of`."""

    @property
    def wrt(self) -> tuple[int, ...]:
        """The indices of the arguments that are differentiated."""
        return self.integers("wrt")

    @property
    def of(self) -> tuple[int, ...]:
        """The indices of the results that are differentiated."""
        return self.integers("of")


class _Derivative(Differentiated):
    """The common base of `ad.jvp` and `ad.vjp`."""

    @property
    def primals(self) -> list[ir.Value]:
        """The operands that become the arguments of the body."""
        return list(self.op.operands)[: len(self.block.arguments)]

    @property
    def seeds(self) -> list[ir.Value]:
        """The operands after the primals: tangents or cotangents."""
        return list(self.op.operands)[len(self.block.arguments) :]

    def _verify(self, seeds: list[ir.Type], seed_word: str, derivatives: list[ir.Type]) -> None:
        """Raises VerifyError unless operands and results have the types that the body requires.

        Args:
          seeds: the types of the seeds.
          seed_word: the word for the seeds in the message: tangents or cotangents.
          derivatives: the types of the results after those of the body.
        """
        arguments = [a.type for a in self.block.arguments]
        operands = [v.type for v in self.op.operands]
        if operands[: len(arguments)] != arguments:
            raise self.error(
                f"one operand for each of the {len(arguments)} arguments of its body, of the same type, got {types_text(operands)}"
            )
        got = operands[len(arguments) :]
        if got != seeds:
            raise self.error(f"{seed_word} of types {types_text(seeds)}, got {types_text(got)}")
        results = [r.type for r in self.op.results]
        expected = [v.type for v in self.terminator.operands] + derivatives
        if results != expected:
            raise self.error(f"results of types {types_text(expected)}, got {types_text(results)}")

    def _verify_indices(self) -> tuple[list[ir.Type], list[ir.Type]]:
        """Checks the body, `wrt` and `of`; returns the types of the differentiated arguments and of the differentiated results."""
        self.verify_body()
        arguments = [a.type for a in self.block.arguments]
        outputs = [v.type for v in self.terminator.operands]
        for word, indices, types in (("wrt", self.wrt, arguments), ("of", self.of, outputs)):
            self.require(len(set(indices)) == len(indices), f"distinct indices in '{word}', got {list(indices)}")
            for i in indices:
                self.require(0 <= i < len(types), f"indices below {len(types)} in '{word}', got {i}")
                if not is_differentiable_type(types[i]):
                    raise self.error(f"a floating-point type at each index of '{word}', got {types[i]}")
        return [arguments[i] for i in self.wrt], [outputs[i] for i in self.of]


def types_text(types: Sequence[ir.Type]) -> str:
    """Types as messages print them: ``(tensor<f32>, tensor<2xf32>)``."""
    return "(" + ", ".join(map(str, types)) + ")"


class JvpOp(_Derivative):
    """``ad.jvp``: (primals, tangents of wrt) -> (results, tangents of `of`)."""

    name = "ad.jvp"

    @staticmethod
    def build(
        primals: Sequence[ir.Value], tangents: Sequence[ir.Value], block: ir.Block, wrt: Sequence[int], of: Sequence[int]
    ) -> JvpOp:
        """Makes an `ad.jvp` at the insertion point; `block`, the function, is moved into it.

        `wrt` are the indices of the differentiated arguments, `of` those of the results whose tangents are computed. `primals` and
        `tangents` are the operands.
        """
        outs = [v.type for v in block.operations[len(block.operations) - 1].operation.operands]
        results = outs + [outs[i] for i in of]
        attributes = {"wrt": _i64s(wrt), "of": _i64s(of)}
        return JvpOp(create("ad.jvp", [*primals, *tangents], results, attributes, block))

    def verify(self) -> None:
        """Raises VerifyError unless operands, results and attributes fit the body."""
        active, differentiable = self._verify_indices()
        self._verify(active, "tangents", differentiable)


class VjpOp(_Derivative):
    """``ad.vjp``: (primals, cotangents of `of`) -> (results, cotangents of wrt)."""

    name = "ad.vjp"

    @staticmethod
    def build(
        primals: Sequence[ir.Value], cotangents: Sequence[ir.Value], block: ir.Block, wrt: Sequence[int], of: Sequence[int]
    ) -> VjpOp:
        """Makes an `ad.vjp` at the insertion point; `block`, the function, is moved into it.

        `wrt` are the indices of the differentiated arguments, `of` those of the results that have cotangents. `primals` and
        `cotangents` are the operands.
        """
        outs = [v.type for v in block.operations[len(block.operations) - 1].operation.operands]
        results = outs + [primals[i].type for i in wrt]
        attributes = {"wrt": _i64s(wrt), "of": _i64s(of)}
        return VjpOp(create("ad.vjp", [*primals, *cotangents], results, attributes, block))

    def verify(self) -> None:
        """Raises VerifyError unless operands, results and attributes fit the body."""
        active, differentiable = self._verify_indices()
        self._verify(differentiable, "cotangents", active)


STOP_GRADIENT = "ad.stop_gradient"
# Elementwise operations of derivatives that avoid NaN, for example from 0 * inf, each with the number of its operands.
GUARDS = {
    "ad.product": 2,
    "ad.quotient": 2,
    "ad.slope": 2,
    "ad.radial": 2,
    "ad.root": 1,
    "ad.hypot": 2,
    "ad.over_squares": 2,
    "ad.power_log": 2,
}
DEGREES = ("ad.slope", "ad.root", "ad.power_log")  # those with the attribute `degree`


def stop_gradient(x: ir.Value) -> ir.Value:
    """``ad.stop_gradient``: the value itself, whose tangent is zero."""
    return ir.Operation.create(STOP_GRADIENT, operands=[x], results=[x.type]).results[0]
