"""Reference values of entry points: the interpreter's results on drawn arguments, to compare on the machine that runs the code.

An artifact carries a weighted sum and some elements of each result, with the distance that rounding explains: a few kB.
The arguments are drawn again from the fields of `Reference`, so neither the compiler nor a file of numbers is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nabla_mlir.base.errors import DeployError, WrongNumbersError
from nabla_mlir.runtime.drawn import DRAWS, drawn
from nabla_mlir.runtime.element_types import dtype_named

if TYPE_CHECKING:
    from nabla_mlir.runtime.manifest import EntryPoint
    from nabla_mlir.runtime.module import Module

_GOLDEN = 0.6180339887498949  # its multiples modulo 1 are evenly distributed


@dataclass(frozen=True)
class ResultReference:
    """The reference values of one result.

    Args:
      indices: the indices of elements, in row-major order.
      values: the values of these elements as text, because "nan", "inf" and "1+2j" are not numbers in JSON.
      bounds: the largest right distance from each value.
      total: `weighted_sum` of all elements, as text; "" if rounding decides an element.
      total_bound: the largest right distance from the total.
    """

    indices: tuple[int, ...]
    values: tuple[str, ...]
    bounds: tuple[float, ...]
    total: str = ""
    total_bound: float = 0.0

    @staticmethod
    def from_json(data: dict[str, Any]) -> ResultReference:
        """The reference whose fields a manifest has."""
        lists = {name: tuple(data[name]) for name in ("indices", "values", "bounds")}
        return ResultReference(**data | lists)


@dataclass(frozen=True)
class Reference:
    """The interpreter's results of an entry point on drawn arguments.

    Args:
      draw, is_definite, form: the parameters of `drawn`, by which the arguments are drawn; older artifacts have no form.
      order: the position of the call among those of the other entry points, which may write a state that it reads.
      results: the reference of each result.
      absence: the reason why there are no results; "" if there are.
      others: the references on other draws.
    """

    draw: str = DRAWS[0]
    is_definite: bool = False
    order: int = 0
    results: tuple[ResultReference, ...] = ()
    absence: str = ""
    others: tuple[Reference, ...] = ()
    form: int = 1

    def to_json(self) -> dict[str, Any]:
        """The values of a manifest."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Reference:
        """The reference that `to_json` wrote."""
        results = tuple(map(ResultReference.from_json, data["results"]))
        return Reference(**data | {"results": results, "others": tuple(map(Reference.from_json, data.get("others", ())))})

    @property
    def draws(self) -> tuple[Reference, ...]:
        """The references on all draws."""
        return self, *self.others


def text_of(x: Any) -> str:
    """A number as text, with an imaginary part only if it has one: "2.0", "1+2j", "nan"."""
    number = complex(x)
    return repr(number).strip("()") if number.imag else repr(number.real)


def weighted_sum(x: np.ndarray) -> complex:
    """The sum of the elements with different weights between 1 and 2, so that exchanged elements change it.

    NaN counts as 1, infinities as 2 and -2.
    """
    wide = np.asarray(x).astype(np.complex128 if x.dtype.kind == "c" else np.float64).reshape(-1)
    if wide.dtype.kind == "c":
        wide = np.where(np.isfinite(wide), wide, 1)
    return complex(np.sum(weights_of(wide.size) * np.nan_to_num(wide, nan=1.0, posinf=2.0, neginf=-2.0)))


def weights_of(count: int) -> np.ndarray:
    """The weights of `count` elements, numbers from 1 up to 2 that are all different."""
    return 1.0 + np.arange(count, dtype=np.float64) * _GOLDEN % 1.0


def arguments_of(entry: EntryPoint, reference: Reference | None) -> list[np.ndarray]:
    """The arrays on which an entry point was computed for its reference, drawn again; None means the default draw."""
    types = [(leaf.shape, dtype_named(leaf.dtype)) for argument in entry.arguments for leaf in argument.leaves]
    name, reference = entry.function or entry.name, reference or Reference()
    return drawn(types, name, reference.draw, reference.is_definite, reference.form)


def in_order(entries: Sequence[EntryPoint]) -> list[EntryPoint]:
    """The entry points in the order of their calls: those that write a state come first."""
    return sorted(entries, key=lambda e: len(entries) if e.reference is None else e.reference.order)


def check_numbers(module: Module) -> dict[str, float]:
    """Compares the entry points of a module with its reference values, in a clone, so that its state does not change.

    Returns:
      For each compared entry point, the largest distance divided by its bound.

    Raises:
      WrongNumbersError: a number differs by more than rounding explains.
      DeployError: there are no reference values.
    """
    found, reasons = dict[str, float](), []
    entries = in_order(module.manifest.entry_points)
    for entry in entries:
        reference = entry.reference or Reference(absence="it was saved by an older release")
        if reference.absence:
            reasons.append(f"{entry.name}: {reference.absence}")
    for draw in dict.fromkeys(r.draw for entry in entries if entry.reference for r in entry.reference.draws):
        clone = module.clone()
        for entry in entries:
            for reference in entry.reference.draws if entry.reference else ():
                if reference.draw == draw and not reference.absence:
                    ratio = compare(entry, reference, call(clone, entry, reference))
                    found[entry.name] = max(ratio, found.get(entry.name, 0.0))
    if not found:
        raise DeployError(
            f"check requires reference values of an entry point, got none ({'; '.join(reasons)}).",
            help="load it without check=True, or save the artifact again.",
        )
    if reasons:
        warnings.warn(f"entry points are not checked: {'; '.join(reasons)}.", RuntimeWarning, stacklevel=3)
    return found


def call(module: Module, entry: EntryPoint, reference: Reference | None) -> list[np.ndarray]:
    """The results of an entry point on the arguments of its reference, as NumPy arrays."""
    return [np.asarray(y) for y in module[entry.name].run(arguments_of(entry, reference))]


def compare(entry: EntryPoint, reference: Reference, results: Sequence[np.ndarray]) -> float:
    """The largest distance of a result from its reference, divided by its bound; at most 1.

    Args:
      entry: the entry point.
      reference: the reference values of its results.
      results: its results on the arguments of the reference.

    Raises:
      WrongNumbersError: a distance is larger than its bound, or a shape or dtype differs.
    """
    worst = 0.0
    for k, (result, leaf) in enumerate(zip(results, entry.result_leaves, strict=True)):
        if (result.shape, result.dtype.name) != (leaf.shape, leaf.dtype):
            raise _wrong(entry, k, "", f"{result.dtype.name}{list(result.shape)}", str(leaf), 0.0)
        for where, got, wanted, bound in _numbers(result, reference.results[k]):
            ratio = _ratio(got, complex(wanted), bound)
            if not ratio <= 1:
                raise _wrong(entry, k, where, text_of(got), wanted, bound)
            worst = max(worst, ratio)
    return worst


def _numbers(result: np.ndarray, reference: ResultReference) -> Iterator[tuple[str, complex, str, float]]:
    """Yields the numbers of a result that a reference has: the index as text, the computed and the reference value, the bound.

    The last one is the weighted sum of all elements, if the reference has it.
    """
    flat = result.reshape(-1)
    for i, wanted, bound in zip(reference.indices, reference.values, reference.bounds, strict=True):
        index = tuple(int(k) for k in np.unravel_index(i, result.shape))
        yield (f" at {index}" if index else ""), complex(flat[i]), wanted, bound
    if reference.total:
        yield " in the weighted sum of all elements", weighted_sum(result), reference.total, reference.total_bound


def _ratio(got: complex, wanted: complex, bound: float) -> float:
    """The distance between a computed and a wanted number, divided by the allowed `bound`; 0 if they are equal or both NaN.

    It is infinite if the distance is not finite, or if they differ and the bound is 0.
    """
    if got == wanted or (np.isnan(got) and np.isnan(wanted)):
        return 0.0
    distance = abs(got - wanted)
    return float("inf") if not np.isfinite(distance) or bound == 0 else distance / bound


def _wrong(entry: EntryPoint, k: int, where: str, got: str, wanted: str, bound: float) -> WrongNumbersError:
    """The error for a wrong number in result `k` of an entry point.

    Args:
      entry: the entry point.
      k: the index of the result.
      where: the index of the element as text, such as " at (0, 1)", or "".
      got, wanted: the number and its reference value, as text.
      bound: the largest right distance.
    """
    return WrongNumbersError(
        f"{entry.name} requires {wanted} as result {k}{where}, to within {bound:.1e}, on drawn arguments, got {got}.",
        help="the code is damaged, or wrong on this machine: copy it again, or compile it for this machine, and report it.",
    )
