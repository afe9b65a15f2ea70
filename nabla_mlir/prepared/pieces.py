"""One batch of a sum over data, at one point: its value, its gradient and its products.

A module is compiled for one number of rows, B. A batch with r < B rows is padded with copies of its last row, and their
share is subtracted: ``f(batch) = f(batch and B - r copies) - (B - r)/B f(B copies)`` if f is a sum over rows; if f is
their mean, the same holds for ``B f``. If f has an argument with weights of rows (a mask), the copies get weight zero
instead, and f may be any function.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.base.errors import BatchError, NablaError, NotFiniteBatchError, ShapeError, TraceError, TreeError
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.locks import cached_property
from nabla_mlir.prepared.flat import Flat
from nabla_mlir.prepared.operators import HessianOperator
from nabla_mlir.runtime import Module
from nabla_mlir.runtime.manifest import Argument

_COLUMNS = 1024  # the number of columns in which the words of an array are summed for its digest
_SUMS: set[tuple[str, bool]] = set()  # modules whose functions have been checked to be sums (or means) over rows


@dataclass(frozen=True)
class Part:
    """The share of one or more batches in a sum: value and gradient as one vector, the number of rows, and digests of the data."""

    vector: np.ndarray
    rows: int
    digests: tuple[str, ...] = ()

    def __add__(self, other: Part) -> Part:
        """The part of both groups of batches; the digests stay in the order of the batches."""
        return Part(self.vector + other.vector, self.rows + other.rows, self.digests + other.digests)


@dataclass(frozen=True)
class Work:
    """The computation for each batch.

    Args:
      module: a module with the entry points `update` and `apply`; its state is not used.
      mean: True if the function is the mean over its rows; the result is then the mean over all rows. Otherwise both are sums.
      mask: the name of the argument with the weights of rows; "" if there is none.
    """

    module: Module
    mean: bool = False
    mask: str = ""

    def __post_init__(self) -> None:
        """Checks that the mask is the name of an argument; raises TraceError otherwise."""
        names = [argument.name for argument in self.module.entry_points["update"].arguments[1:]]
        if self.mask and self.mask not in names:
            raise TraceError(f"mask requires the name of an argument with data, {', '.join(names)}, got {self.mask!r}.")

    @cached_property
    def x(self) -> Flat:
        """The point, as a flat vector."""
        argument = self.module.entry_points["update"].arguments[0]
        return Flat(argument.tree, argument.leaves)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a batch has."""
        return tuple(a for a in self.module.entry_points["update"].arguments[1:] if a.name != self.mask)

    @cached_property
    def length(self) -> int:
        """The number of rows of a full batch: the length of its first array that is not a scalar; 0 if there is none."""
        return next((leaf.shape[0] for a in self.arguments for leaf in a.leaves if leaf.shape), 0)

    @cached_property
    def block(self) -> int:
        """The number of columns that are multiplied at once."""
        entry = self.module.entry_points.get("apply_block")
        return entry.arguments[0].leaves[0].shape[0] if entry else 1

    @property
    def data_bytes(self) -> int:
        """The size of the arrays of a full batch."""
        return sum(leaf.nbytes for argument in self.arguments for leaf in argument.leaves)

    @property
    def state_bytes(self) -> int | None:
        """The size of the residuals of a batch; None if an artifact does not state it."""
        return self.module.manifest.state_bytes

    @cached_property
    def has_value(self) -> bool:
        """True if the value is a number, which can be summed; the value of a Fisher matrix is the model's result."""
        update = self.module.entry_points["update"]
        positions = [leaf for leaf in update.result_leaves if leaf.name.startswith("result['value']")]
        return len(positions) == 1 and positions[0].shape == ()

    @cached_property
    def has_gradient(self) -> bool:
        """True if the update returns a gradient."""
        leaves = self.module.entry_points["update"].result_leaves
        return any(leaf.name.startswith("result['gradient']") for leaf in leaves)

    @property
    def part_size(self) -> int:
        """The length of the vector of a part: the value and the gradient, if they exist."""
        return self.has_value + self.has_gradient * self.x.size

    def leaves(self, data: Sequence[Any]) -> list[np.ndarray]:
        """The leaves of the arguments of a batch, as NumPy arrays; raises TreeError for another number of arguments."""
        if len(data) != len(self.arguments):
            names = ", ".join(argument.name for argument in self.arguments)
            raise TreeError(f"a batch requires its {len(self.arguments)} arguments ({names}), got {len(data)}.")
        pairs = zip(self.arguments, data, strict=True)
        return [np.asarray(readable(leaf)) for a, tree in pairs for leaf in a.tree.flatten(tree, a.name)]

    def runs(self, leaves: Sequence[np.ndarray]) -> tuple[int, list[tuple[float, list[np.ndarray]]]]:
        """The number of rows of a batch, and the weighted runs of the module whose sum is the share of the batch.

        Each run is a pair of a weight and the arrays with which the module runs; there are two for a padded batch without a mask.

        Raises:
          ShapeError: an array has more rows than the module, or the arrays differ in their number of rows.
        """
        specs = [leaf for argument in self.arguments for leaf in argument.leaves]
        shorter = [i for i, (a, spec) in enumerate(zip(leaves, specs, strict=True)) if a.shape != spec.shape]
        for i in shorter:
            array, spec = leaves[i], specs[i]
            is_by_rows = bool(spec.shape) and spec.shape[0] == self.length and array.shape[1:] == spec.shape[1:]
            if not is_by_rows or not array.ndim or array.shape[0] > self.length:
                shape = ",".join(map(str, array.shape))
                raise ShapeError(f"a batch requires {spec} for {spec.name}, or fewer rows of them, got {array.dtype}[{shape}].")
        by_rows = [i for i, spec in enumerate(specs) if spec.shape and spec.shape[0] == self.length]
        lengths = {leaves[i].shape[0] for i in by_rows}
        if len(lengths) > 1:
            raise ShapeError(f"a batch requires arrays with the same number of rows, got {', '.join(map(str, sorted(lengths)))}.")
        rows = lengths.pop() if lengths else 1
        if not rows:
            return 0, []
        weight = float(self.length or 1) if self.mean else 1.0
        if not shorter:
            return rows, [(weight, self._masked(leaves, rows))]
        padding = self.length - rows
        longer = [_padded(a, padding) if i in shorter else a for i, a in enumerate(leaves)]
        if self.mask:
            return rows, [(float(rows) if self.mean else 1.0, self._masked(longer, rows))]
        # A sum over rows, with the missing rows replaced by copies of the last row, minus the share of these copies.
        copies = [np.repeat(a[-1:], self.length, axis=0) if i in shorter else a for i, a in enumerate(leaves)]
        return rows, [(weight, longer), (-weight * padding / self.length, copies)]

    def _masked(self, leaves: Sequence[np.ndarray], rows: int) -> list[np.ndarray]:
        """The arrays with which the module runs: those of a batch, and the mask, if there is one.

        The mask has ones for the first `rows` rows and zeros for the padding, and is inserted at the position of its argument.
        """
        if not self.mask:
            return list(leaves)
        names = [a.name for a in self.module.entry_points["update"].arguments[1:]]
        position = sum(len(a.leaves) for a in self.module.entry_points["update"].arguments[1 : 1 + names.index(self.mask)])
        leaf = self.module.entry_points["update"].arguments[1 + names.index(self.mask)].leaves[0]
        mask = (np.arange(leaf.shape[0]) < rows).astype(leaf.dtype)
        return [*leaves[:position], mask, *leaves[position:]]

    def tree(self, leaves: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """The data arguments of the module as pytrees, from their arrays in order (`leaves`, with the mask if there is one)."""
        rest = iter(leaves)
        return tuple(a.tree.unflatten([next(rest) for _ in a.leaves]) for a in self.module.entry_points["update"].arguments[1:])


class Piece:
    """One batch at one point: it owns the residuals, and computes products from them.

    Args:
      work: the computation for a batch.
      travels: True if it can be pickled. It then stores the data, from which the receiver recomputes the residuals.
    """

    part: Part
    _point: np.ndarray | None
    _data: Sequence[Any] | None
    work: Work
    number: int
    travels: bool

    def __init__(self, work: Work, travels: bool = False):
        """An empty piece, which `move` gives a batch and a point; the class describes the arguments."""
        self.work, self.number, self.travels = work, -1, travels
        self._operators: list[HessianOperator] = []
        self._weights: list[float] = []

    def move(self, number: int, x: np.ndarray, data: Sequence[Any], check: bool = False) -> Part:
        """Moves the piece to a batch and a point; returns the share of the batch in value and gradient.

        Args:
          number: the index of the batch, for error messages.
          x: the point, as a vector.
          data: the arguments of the batch.
          check: True refuses a value or a gradient that is not finite.

        Raises:
          BatchError: the batch raised an error; it has the index of the batch.
        """
        self.number = number
        with naming(number):
            leaves = self.work.leaves(data)
            rows, runs = self.work.runs(leaves)
            if len(runs) > 1:
                self._check_sum(x, leaves, rows)
            self._weights = [weight for weight, _ in runs]
            vector = np.zeros(self.work.part_size, self.work.x.dtype)
            for i, (weight, arrays) in enumerate(runs):
                vector += weight * self._run(i, x, self.work.tree(arrays))
            if check and not np.isfinite(vector).all():
                self._refuse(leaves)
        self.part = Part(vector, rows, (digest_of(leaves),))
        self._point, self._data = (x, data) if self.travels else (None, None)
        return self.part

    def __reduce__(self) -> Any:
        """The recipe of pickle: it sends work, index, point and data. The receiver computes the residuals again."""
        device = getattr(self.work.module.executable, "device", None)  # the interpreter has no device
        if device is not None:
            device.hal.allocator.trim()  # pieces move to disk if memory is short, so the memory of earlier pieces is freed
        return _restored_piece, (self.work, self.number, self._point, self._data)

    def __sizeof__(self) -> int:
        """The size in bytes of the piece with its data and residuals, which Dask uses to decide what moves to disk."""
        data = 0 if self._data is None else sum(leaf.nbytes for leaf in self.work.leaves(self._data))
        return object.__sizeof__(self) + data + (self.work.state_bytes or 0) * len(self._operators)

    def _run(self, i: int, x: np.ndarray, data: tuple[Any, ...]) -> np.ndarray:
        """The value and the gradient of operator number i as one vector, after it is moved to the point and the data."""
        if i == len(self._operators):
            self._operators.append(HessianOperator(self.work.module.clone(), x, *data))
        else:
            self._operators[i].update(x, *data)
        operator = self._operators[i]
        operator.forget_data()  # the state has everything that products need from the data
        parts: list[Any] = [[operator.value]] if self.work.has_value else []
        parts += [operator.gradient] if operator.gradient is not None else []
        return np.concatenate([np.empty(0), *parts]).astype(self.work.x.dtype)

    def _check_sum(self, x: np.ndarray, leaves: list[np.ndarray], rows: int) -> None:
        """Raises ShapeError unless the function is a sum over rows, or their mean, which a padded batch requires.

        The test: with B rows a and b, f(a..a) + f(b..b) = f(ab..b) + f(ba..a). It runs once for each module, on the first and the
        last row of the batch (`leaves`, with `rows` rows) at the point `x`.
        """
        work, key = self.work, (self.work.module.digest, self.work.mean)
        if key in _SUMS:
            return
        specs = [leaf for argument in work.arguments for leaf in argument.leaves]
        has_rows = [a.shape != spec.shape for a, spec in zip(leaves, specs, strict=True)]  # the batch is short, so shapes differ
        # The first row a and the last row b of each array; a single row is compared with a row of zeros.
        first = [a[:1] if a.ndim else a for a in leaves]
        last = [(a[-1:] if rows > 1 else np.zeros_like(a[-1:])) if a.ndim else a for a in leaves]

        def at(one: list[np.ndarray], many: list[np.ndarray]) -> np.ndarray:
            """The value and gradient for one row `one` and B - 1 rows `many`; for a module without both, a product with ones."""
            arrays = [
                np.concatenate([p, np.repeat(q, work.length - 1, axis=0)]) if is_by_rows else a
                for a, p, q, is_by_rows in zip(leaves, one, many, has_rows, strict=True)
            ]
            result = self._run(0, x, work.tree(arrays))
            return result if result.size else self._operators[0].matvec(np.ones(work.x.size, work.x.dtype))

        values = [at(first, first), at(last, last), at(first, last), at(last, first)]
        difference = np.linalg.norm(values[0] + values[1] - values[2] - values[3])
        scale = sum(np.linalg.norm(value) for value in values)
        if not difference <= np.sqrt(np.finfo(work.x.dtype).eps) * scale:
            raise ShapeError(
                f"a batch of {rows} rows, of {work.length}, requires a function that is a sum over rows or a mean of them, got one "
                f"with a relative difference of {difference / scale:.1e}.",
                help='give the function an argument for weights of rows and name it, mask="weights"; or short="compile"; or leave '
                "the short batch out.",
            )
        _SUMS.add(key)

    def _refuse(self, leaves: list[np.ndarray]) -> None:
        """Raises NotFiniteBatchError, which names the arrays of the batch (`leaves`) that are not finite, or says that all are."""
        specs = [leaf.name for argument in self.work.arguments for leaf in argument.leaves]
        names = [name for name, a in zip(specs, leaves, strict=True) if a.dtype.kind in "fc" and not np.isfinite(a).all()]
        where = f"its data ({', '.join(names)})" if names else "its value or gradient, of data that are finite"
        message = f"batch {self.number} requires finite numbers, got NaN or infinity in {where}."
        raise NotFiniteBatchError(message, number=self.number, help="look at the batch with that number, and at the point.")

    def product(self, matrix: np.ndarray) -> np.ndarray:
        """The share of the batch in the product with the columns of a matrix.

        Raises:
          BatchError: the product failed; it has the index of the batch.
        """
        total = np.zeros((self.work.x.size, matrix.shape[1]), self.work.x.dtype)
        with naming(self.number):
            for weight, operator in zip(self._weights, self._operators, strict=False):
                column = matrix.shape[1] == 1
                result = operator.matvec(matrix[:, 0])[:, None] if column else operator.matmat(matrix)
                total += weight * result
        return total


def _restored_piece(work: Work, number: int, x: np.ndarray, data: Sequence[Any]) -> Piece:
    """The piece of a batch in the process that received it, with residuals that are computed again.

    Args:
      work: the computation for a batch.
      number: the index of the batch.
      x: the point, as a vector.
      data: the arguments of the batch.
    """
    piece = Piece(work, travels=True)
    piece.move(number, x, data)
    return piece


@contextlib.contextmanager
def naming(number: int) -> Iterator[None]:
    """A context in which each error becomes a BatchError with the index of the batch, `number`."""
    try:
        yield
    except BatchError:
        raise
    except Exception as error:
        text = error.message if isinstance(error, NablaError) else str(error)
        message = f"batch {number} requires data that the function takes, got {type(error).__name__}: {text.rstrip('.')}."
        raise BatchError(message, number=number, help=getattr(error, "help", "")) from error


def digest_of(leaves: Sequence[np.ndarray]) -> str:
    """A digest that equal arrays share, at the speed of reading them: it hashes sums of their words, in columns.

    Example:
      >>> a = np.arange(3000.0)
      >>> digest_of([a]) == digest_of([a.copy()]), digest_of([a]) == digest_of([a[::-1]])
      (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for array in leaves:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        in_rows = len(flat) - len(flat) % (8 * _COLUMNS)  # the bytes that fill whole rows of 64-bit words
        digest.update(flat[:in_rows].view(np.uint64).reshape(-1, _COLUMNS).sum(axis=0, dtype=np.uint64).tobytes())
        digest.update(flat[in_rows:].tobytes())
    return digest.hexdigest()


def _padded(array: np.ndarray, count: int) -> np.ndarray:
    """The array with `count` copies of its last row appended."""
    return np.concatenate([array, np.repeat(array[-1:], count, axis=0)])
