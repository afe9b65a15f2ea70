"""Rotations in three dimensions under the names of `scipy.spatial.transform`, with the parameters of JAX.

A rotation is stored as a quaternion (x, y, z, w), a pytree with one leaf; leading axes hold several rotations.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nabla_mlir.base.errors import ShapeError, user_frame
from nabla_mlir.numpy.extrema import argmax
from nabla_mlir.numpy.factorizations import eigh
from nabla_mlir.numpy.joining import concatenate, diff, stack
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import asarray, inexact, tensor
from nabla_mlir.numpy.products import cross, matmul
from nabla_mlir.numpy.shapes import atleast_1d, matrix_transpose, roll
from nabla_mlir.numpy.sorting import searchsorted
from nabla_mlir.numpy.ufuncs import absolute, arctan2, cos, deg2rad, hypot, maximum, rad2deg, sin, sqrt
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.tensor import Tensor

_SMALL = 1e-3  # for smaller angles a short series is exact


class Rotation(NamedTuple):
    """Rotations in three dimensions, stored as quaternions; `r * s` applies first s, then r.

    Example:
      >>> r = Rotation.from_euler("z", 90.0, degrees=True)
      >>> np.asarray(r.apply(np.array([1.0, 0.0, 0.0]))).round(6).tolist()
      [0.0, 1.0, 0.0]
      >>> [round(x, 3) for x in (r * r).as_rotvec().tolist()]
      [0.0, 0.0, 3.142]
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Joins stacks of rotations into one."""
        return cls(concatenate([r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations about up to three axes: fixed axes ("xyz"), or axes that rotate with the body ("XYZ").

        Args:
          seq: the axes, one after the other.
          angles: an array of shape (..., n) for n axes, or one number for one axis.
          degrees: True for angles in degrees.

        Raises:
          ShapeError: the axes are invalid.
        """
        return cls(_from_euler(atleast_1d(angles), seq, degrees))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """The rotations that matrices of shape (..., 3, 3) describe."""
        return cls(_from_matrix(matrix))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """The rotations with modified Rodrigues parameters of shape (..., 3): axis times tan(angle / 4)."""
        return cls(_from_mrp(mrp))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """The rotations with quaternions (x, y, z, w), which need not have length 1."""
        return cls(_normalised(quat))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """The rotations with rotation vectors of shape (..., 3): axis times angle."""
        return cls(_from_rotvec(rotvec, degrees))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The identity rotation, or `num` copies of it."""
        shape = () if num is None else (num,)
        return cls(asarray(np.broadcast_to(np.array([0.0, 0.0, 0.0, 1.0]), (*shape, 4)), dtype=dtype))

    @property
    def single(self) -> bool:
        """True for one rotation, without leading axes."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            raise TypeError("an index requires several rotations, got one.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("len requires several rotations, got one.")
        return int(self.quat.shape[0])

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        return Rotation(_product(self.quat, other.quat))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Rotates vectors of shape (..., 3); `inverse` applies the inverse rotation."""
        return _rotated(self.quat, vectors, inverse)

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes, in the convention of `from_euler`; the last angle is 0 if two axes are parallel."""
        return _as_euler(self.quat, seq, degrees)

    def as_matrix(self) -> Any:
        """Rotation matrices."""
        return _as_matrix(self.quat)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters."""
        return _as_mrp(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Rotation vectors: the axis times the angle, which is at most pi."""
        return _as_rotvec(self.quat, degrees)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """Quaternions (x, y, z, w), or (w, x, y, z) if `scalar_first`; `canonical` selects the sign with positive w."""
        return _as_quat(self.quat, canonical, scalar_first)

    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(self.quat * np.array([-1.0, -1.0, -1.0, 1.0], self.quat.dtype))

    def magnitude(self) -> Any:
        """The angles of rotation, from 0 to pi."""
        return _magnitude(self.quat)

    def mean(self, weights: Any = None) -> Rotation:
        """The mean rotation: it minimises the sum of squared distances between matrices (Markley 2007).

        Raises:
          ShapeError: the number of weights is not the number of rotations.
        """
        return Rotation(_mean(self.quat, np.ones(len(self), self.quat.dtype) if weights is None else weights))


class Slerp(NamedTuple):
    """Interpolates between rotations along the shortest path with constant speed.

    Example:
      >>> ends = Rotation.from_euler("z", np.array([[0.0], [90.0]]), degrees=True)
      >>> float(np.rad2deg(Slerp.init(np.array([0.0, 1.0]), ends)(0.5).magnitude()).round(4))
      45.0
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Makes the interpolation through two or more rotations at increasing times.

        Raises:
          ShapeError: the number of times is not the number of rotations.
        """
        knots = asarray(times, dtype=rotations.quat.dtype)
        if rotations.single or len(rotations) < 2 or knots.shape != (len(rotations),):
            raise ShapeError(
                f"Slerp requires two or more rotations and a time for each, got shapes {rotations.quat.shape} and {knots.shape}.",
                where=user_frame(),
            )
        starts, ends = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(knots, diff(knots), starts, (starts.inv() * ends).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at these times: a number or a vector."""
        requested = asarray(times, dtype=self.times.dtype)
        positions = maximum(searchsorted(self.times, requested) - 1, 0)  # the last rotation before each time
        parts = (requested - self.times[positions]) / self.timedelta[positions]
        return self.rotations[positions] * Rotation.from_rotvec(self.rotvecs[positions] * parts[..., None])


# ---------------------------------------------------------------- quaternions
def _length(x: Tensor) -> Tensor:
    return sqrt((x * x).sum(-1))


@library
def _normalised(quat: Any) -> Tensor:
    """The quaternions divided by their lengths."""
    q = inexact(quat)
    return q / _length(q)[..., None]


@library
def _product(p: Any, q: Any) -> Tensor:
    """The normalised product p q of two quaternions (x, y, z, w).

    For vectors v, a and scalars w, b of the two, it is (w a + b v + v × a, w b - v · a).
    """
    p, q = inexact(p), inexact(q)
    v, w, a, b = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = w * a + b * v + cross(v, a)
    scalar = w * b - (v * a).sum(-1, keepdims=True)
    out = concatenate([vector, scalar], -1)
    return out / _length(out)[..., None]


@library
def _rotated(quat: Any, vectors: Any, inverse: Static[bool]) -> Tensor:
    """The vectors rotated by the quaternions, or by their inverses."""
    matrix, v = _as_matrix(quat), inexact(vectors)
    return matmul(matrix_transpose(matrix) if inverse else matrix, v[..., None])[..., 0]


@library
def _magnitude(quat: Any) -> Tensor:
    """The angles of the rotations, from 0 to pi."""
    q = inexact(quat)
    return 2.0 * arctan2(_length(q[..., :3]), absolute(q[..., 3]))


@library
def _mean(quat: Any, weights: Any) -> Tensor:
    """The quaternion of the weighted mean rotation: the eigenvector of a matrix with the largest eigenvalue.

    Raises ShapeError unless there is a weight for each rotation.
    """
    q, w = inexact(quat), inexact(weights)
    if q.ndim != 2 or w.shape != q.shape[:1]:
        raise ShapeError(f"mean requires rotations and a weight for each, got shapes {q.shape} and {w.shape}.", where=user_frame())
    return eigh(matmul(matrix_transpose(q) * w, q))[1][:, -1]


@library
def _as_quat(quat: Any, canonical: Static[bool], scalar_first: Static[bool]) -> Tensor:
    """The quaternions in the requested form: with a canonical sign, or with the scalar first."""
    q = inexact(quat)
    if canonical:
        is_negative = q[..., 2] < 0
        for k in (1, 0, 3):
            is_negative = (q[..., k] < 0) | ((q[..., k] == 0) & is_negative)
        q = where(is_negative[..., None], -q, q)
    return roll(q, 1, -1) if scalar_first else q


# ---------------------------------------------------------------- matrices
@library
def _as_matrix(quat: Any) -> Tensor:
    """The rotation matrices of quaternions (x, y, z, w)."""
    q = inexact(quat)
    x, y, z, w = (q[..., k] for k in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return stack([stack(row, -1) for row in rows], -2)


@library
def _from_matrix(matrix: Any) -> Tensor:
    """The quaternions of rotation matrices, by the formula with the largest divisor out of four."""
    m = inexact(matrix)
    diagonal = [m[..., k, k] for k in range(3)]
    trace = diagonal[0] + diagonal[1] + diagonal[2]
    formulas = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - trace + 2 * diagonal[i], j: m[..., j, i] + m[..., i, j], k: m[..., k, i] + m[..., i, k]}
        formulas.append(stack([parts[0], parts[1], parts[2], m[..., k, j] - m[..., j, k]], -1))
    differences = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    formulas.append(stack([*differences, 1 + trace], -1))
    choice = argmax(stack([*diagonal, trace], -1), -1)[..., None]
    out = formulas[3]
    for i in range(3):
        out = where(choice == i, formulas[i], out)
    return _normalised(out)


# ---------------------------------------------------------------- vectors
@library
def _from_rotvec(rotvec: Any, degrees: Static[bool]) -> Tensor:
    """The quaternions of rotation vectors v: (sin(angle / 2) v / angle, cos(angle / 2)) with angle = |v|; series for small
    angles.
    """
    v = inexact(rotvec)
    v = deg2rad(v) if degrees else v
    square = (v * v).sum(-1, keepdims=True)
    is_small = square <= _SMALL**2
    angle = sqrt(where(is_small, 1.0, square))
    ratio = where(is_small, 0.5 - square / 48 + square * square / 3840, sin(angle / 2) / angle)
    cosine = where(is_small, 1 - square / 8 + square * square / 384, cos(angle / 2))
    return concatenate([ratio * v, cosine], -1)


@library
def _as_rotvec(quat: Any, degrees: Static[bool]) -> Tensor:
    """The rotation vectors of quaternions (sine u, cosine) with a unit vector u: 2 atan2(sine, cosine) u; a series for a small
    sine.
    """
    q = inexact(quat)
    q = where(q[..., 3:] < 0, -q, q)  # the angle is at most pi
    square = (q[..., :3] * q[..., :3]).sum(-1, keepdims=True)
    is_small = square <= _SMALL**2
    sine = sqrt(where(is_small, 1.0, square))
    ratio = where(is_small, 2 + square / 3 + 3 * square * square / 20, 2.0 * arctan2(sine, q[..., 3:]) / sine)
    return (rad2deg(ratio) if degrees else ratio) * q[..., :3]


@library
def _from_mrp(mrp: Any) -> Tensor:
    """The quaternions of modified Rodrigues parameters."""
    v = inexact(mrp)
    size = (v * v).sum(-1, keepdims=True) + 1
    return concatenate([2 * v, 2 - size], -1) / size


@library
def _as_mrp(quat: Any) -> Tensor:
    """The modified Rodrigues parameters of quaternions."""
    q = inexact(quat)
    sign = where(q[..., 3:] < 0, -1.0, 1.0)
    return sign * q[..., :3] / (1.0 + sign * q[..., 3:])


# ---------------------------------------------------------------- angles
def _axes_of(name: str, seq: str, most: int) -> list[int]:
    """The numbers of the axes in a text such as "xyz"; raises ShapeError for other texts."""
    axes = ["xyz".find(letter) for letter in seq.lower()]
    is_plain = seq in (seq.lower(), seq.upper()) and 1 <= len(seq) <= most
    if not is_plain or -1 in axes or any(a == b for a, b in itertools.pairwise(axes)):
        raise ShapeError(f"{name} requires axes from xyz, or from XYZ, no two neighbours equal, got {seq!r}.", where=user_frame())
    return axes


@library
def _from_euler(angles: Any, seq: Static[str], degrees: Static[bool]) -> Tensor:
    """The quaternions of `angles` about the axes of `seq`, such as "xyz" (fixed axes) or "XYZ" (axes of the body).

    Raises ShapeError for another number of angles.
    """
    axes, amounts = _axes_of("from_euler", seq, 3), inexact(angles)
    if amounts.shape[-1] != len(axes):
        raise ShapeError(f"from_euler requires {len(axes)} angles for {seq!r}, got shape {amounts.shape}.", where=user_frame())
    amounts = deg2rad(amounts) if degrees else amounts
    out = None
    for k, axis in enumerate(axes):
        half = amounts[..., k : k + 1] * 0.5
        quat = sin(half) * np.eye(4)[axis] + cos(half) * np.eye(4)[3]
        out = quat if out is None else _product(out, quat) if seq.isupper() else _product(quat, out)
    return tensor(out)


@library
def _as_euler(quat: Any, seq: Static[str], degrees: Static[bool]) -> Tensor:
    """The Euler angles of quaternions about the axes of `seq`, by the method of Bernardes and Viollet (2022), as in SciPy.

    Raises ShapeError unless `seq` names three axes.
    """
    axes, q, is_fixed = _axes_of("as_euler", seq, 3), inexact(quat), seq.islower()
    if len(axes) != 3:
        raise ShapeError(f"as_euler requires three axes, got {seq!r}.", where=user_frame())
    i, j, k = axes if is_fixed else reversed(axes)
    is_symmetric = i == k
    k = 3 - i - j if is_symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    x, y, z, w = q[..., i], q[..., j], q[..., k] * sign, q[..., 3]
    # The formulas of that paper; a, b, c, d are its names.
    a, b, c, d = (w, x, y, z) if is_symmetric else (w - y, x + z, y + w, z - x)
    middle = 2.0 * arctan2(hypot(c, d), hypot(a, b))
    at_start, at_end = absolute(middle) <= 1e-7, absolute(middle - np.pi) <= 1e-7
    total, difference = arctan2(b, a), arctan2(d, c)
    one = where(at_start, 2 * total, 2 * difference * (-1 if is_fixed else 1))  # the two outer axes are parallel
    is_between = ~at_start & ~at_end
    first = where(is_between, total - difference, one if is_fixed else 0.0)
    third = where(is_between, total + difference, 0.0 if is_fixed else one)
    if not is_symmetric:
        third, middle = third * sign, middle - np.pi / 2
    out = stack([first, middle, third] if is_fixed else [third, middle, first], -1)
    out = (out + np.pi) % (2 * np.pi) - np.pi
    return rad2deg(out) if degrees else out
