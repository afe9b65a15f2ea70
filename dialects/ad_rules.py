"""The operations of `ad` with rules of the user: each rule is a region next to the region of the function."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from nabla_mlir.base.errors import VerifyError
from nabla_mlir.dialects.ad import Differentiated, is_differentiable_type, types_text
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import RegionOp

RECUR = "ad.recur"
# The attribute of a custom function whose rule was not traced. It is a unit if the function is called in its own rule, and no
# derivative of that order was requested. It is a text with the error if the rule raised one.
WITHOUT_RULE = "without_rule"
Types = list[ir.Type]


class RuleOp(RegionOp):
    """The common base of the operations of this module: named regions of one block that ends in `stablehlo.return`."""

    region_names: tuple[str, ...] = ()

    def types_of(self, region: str) -> tuple[Types, Types]:
        """The types of the arguments and of the returned values of a region."""
        block = self.op.regions[self.region_names.index(region)].blocks[0]
        terminator = block.operations[len(block.operations) - 1].operation
        return [a.type for a in block.arguments], [v.type for v in terminator.operands]

    def verify_regions(self) -> tuple[Types, Types]:
        """Checks that every region exists; returns the types of operands and results."""
        names = ", ".join(self.region_names)
        self.require(len(self.op.regions) == len(self.region_names), f"the regions {names}, got {len(self.op.regions)}")
        for name, region in zip(self.region_names, self.op.regions, strict=True):
            self.verify_region(region, f"a region {name}")
        return [v.type for v in self.op.operands], [r.type for r in self.op.results]

    def verify_types(self, region: str, arguments: Sequence[ir.Type], result_types: Sequence[ir.Type]) -> None:
        """Raises VerifyError unless the region `region` takes and returns these types.

        `arguments` are the types of its arguments, and `result_types` those of its results.
        """
        for word, expected, got in zip(("takes", "returns"), (arguments, result_types), self.types_of(region), strict=True):
            if got != list(expected):
                raise self.error(f"a region {region} that {word} {types_text(expected)}, got {types_text(got)}")


class _CustomOp(RuleOp, Differentiated):
    """The common base of `ad.custom_jvp` and `ad.custom_vjp`."""

    @property
    def label(self) -> str:
        """The name by which `ad.recur` refers to this operation from inside its rules."""
        value = self.value_of("name", "a word")
        if not isinstance(value, ir.StringAttr):
            raise self.error("the attribute 'name'")
        return str(value.value)

    def _verify_custom(self) -> tuple[Types, Types, Types, Types]:
        """Checks regions, name and indices; returns the types of operands, results, their tangents, and tangents of results."""
        operands, results = self.verify_regions()
        self.require(bool(self.label), "a name that is not empty")
        for word, indices, types in (("wrt", self.wrt, operands), ("of", self.of, results)):
            fits = list(indices) == sorted({i for i in indices if 0 <= i < len(types)})
            self.require(fits, f"rising indices below {len(types)} in '{word}', got {list(indices)}")
            wrong = [types[i] for i in indices if not is_differentiable_type(types[i])]
            self.require(not wrong, f"floating-point types at '{word}', got {types_text(wrong)}")
        self.verify_types("primal", operands, results)
        return operands, results, [operands[i] for i in self.wrt], [results[i] for i in self.of]


class CustomJvpOp(_CustomOp):
    """``ad.custom_jvp``: arguments -> results, with a rule (arguments, tangents) -> (results, tangents)."""

    name = "ad.custom_jvp"
    region_names: tuple[str, ...] = ("primal", "rule")

    def verify(self) -> None:
        """Raises VerifyError unless the regions fit operands and results."""
        operands, results, tangents, out_tangents = self._verify_custom()
        self.verify_types("rule", operands + tangents, results + out_tangents)


class CustomVjpOp(_CustomOp):
    """``ad.custom_vjp``: arguments -> results, with fwd: arguments -> (results, residuals), and bwd:
    (residuals, cotangents) -> cotangents.
    """

    name = "ad.custom_vjp"
    region_names: tuple[str, ...] = ("primal", "fwd", "bwd")

    def verify(self) -> None:
        """Raises VerifyError unless the regions fit operands, results and each other."""
        operands, results, cotangents, out_cotangents = self._verify_custom()
        residuals = self.types_of("fwd")[1][len(results) :]
        self.verify_types("fwd", operands, results + residuals)
        self.verify_types("bwd", residuals + out_cotangents, cotangents)


class LinearSolveOp(RuleOp):
    """``ad.linear_solve``: b -> x with matvec(x) = b, computed by `solve`; the transposed system by `transpose_solve`.

    If `transposable` is false, the user gave no solver of the transposed system: that region is not used, and there is
    no reverse mode.
    """

    name = "ad.linear_solve"
    region_names: tuple[str, ...] = ("matvec", "solve", "transpose_solve")

    def verify(self) -> None:
        """Raises VerifyError unless every region maps the type of the operands to itself."""
        operands, results = self.verify_regions()
        self.require(isinstance(self.value_of("transposable", "true or false"), ir.BoolAttr), "the attribute 'transposable'")
        self.require(operands == results, f"results of types {types_text(operands)}, got {types_text(results)}")
        for region in self.region_names:
            self.verify_types(region, operands, operands)


POLICIES = (
    "nothing_saveable",
    "everything_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "save_only_these_names",
    "save_any_names_but_these",
    "save_anything_except_these_names",
)


_WORDS = "a list of lists of words"


class CheckpointOp(RuleOp):
    """``ad.checkpoint``: a region without arguments whose values reverse mode recomputes instead of storing them.

    ``policies`` is a list of lists of words: the first word names a policy, the others are its arguments. A value is
    stored if any policy allows it. ``recompute`` marks the region of a backward pass. Unless ``prevent_cse`` is false,
    a barrier separates its inputs from the forward pass when it is inlined.
    """

    name = "ad.checkpoint"
    region_names: tuple[str, ...] = ("body",)

    @property
    def policies(self) -> list[list[str]]:
        """The policies, each a word and its arguments."""
        lists = self.items("policies", ir.ArrayAttr, _WORDS)
        try:
            policies = [[word.value if isinstance(word, ir.StringAttr) else "" for word in words] for words in lists]
        except TypeError:  # a word of a type that the bindings do not know
            policies = [[]]
        if not all(words and all(words) for words in policies):
            raise self.error(f"'policies' as {_WORDS}, got {self.op.attributes['policies']}")
        return policies

    @property
    def prevent_cse(self) -> bool:
        """True if a barrier separates the recomputation from the forward pass."""
        return self._flag("prevent_cse")

    @property
    def recompute(self) -> bool:
        """True if this is the region of a backward pass."""
        return self._flag("recompute")

    def _flag(self, name: str) -> bool:
        """The value of the boolean attribute `name`; raises VerifyError if it is missing or of another type."""
        value = self.value_of(name, "true or false")
        if not isinstance(value, ir.BoolAttr):
            raise self.error(f"the attribute '{name}' as true or false, got {value}")
        return bool(value.value)

    def verify(self) -> None:
        """Raises VerifyError unless results and attributes fit."""
        operands, results = self.verify_regions()
        self.require(not operands, f"no operands, got {types_text(operands)}")
        self.verify_types("body", [], results)
        for word, *_ in self.policies:
            self.require(word in POLICIES, f"policies among {', '.join(POLICIES)}, got {word}")
        for name in ("prevent_cse", "recompute"):
            self._flag(name)  # raises unless it is a boolean attribute


CUSTOM: dict[str, type[CustomJvpOp] | type[CustomVjpOp]] = {"ad.custom_jvp": CustomJvpOp, "ad.custom_vjp": CustomVjpOp}

RULES: dict[str, type[CustomJvpOp] | type[CustomVjpOp] | type[LinearSolveOp] | type[CheckpointOp]] = {
    **CUSTOM,
    LinearSolveOp.name: LinearSolveOp,
    CheckpointOp.name: CheckpointOp,
}


def verify_recur(op: ir.Operation) -> None:
    """Raises VerifyError unless an `ad.recur` is inside a rule of its name and has the types of this rule."""
    label = op.attributes["name"].value if "name" in op.attributes else None
    around = enclosing(op, label)
    if around is None:
        raise VerifyError(f"ad.recur requires to stand in a rule of the name it has, got {label!r}.", where=source_of(op.location))
    for word, own_values, values_around in (("operands", op.operands, around.operands), ("results", op.results, around.results)):
        expected, got = [v.type for v in values_around], [v.type for v in own_values]
        if expected != got:
            raise VerifyError(
                f"ad.recur requires {word} of types {types_text(expected)}, got {types_text(got)}.", where=source_of(op.location)
            )


def enclosing(op: ir.Operation, label: str | None) -> ir.Operation | None:
    """The innermost custom function with the name `label` whose rules contain an operation; None if there is none."""
    parent = op.parent
    while parent is not None:
        around = parent.operation
        if around.name in CUSTOM and CUSTOM[around.name](around).label == label:
            return around
        parent = around.parent
    return None
