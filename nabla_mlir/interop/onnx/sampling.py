"""Operators of ONNX that read images between their pixels: resizing, grids, regions, deformed convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nabla_mlir.numpy as nnp
from nabla_mlir.interop.onnx.reductions import numbers
from nabla_mlir.interop.onnx.table import Refusal, operator
from nabla_mlir.table.tensor import Tensor

# ---------------------------------------------------------------- kernels as functions of a distance


def _linear(t: Any) -> Any:
    return np.clip(1 - np.abs(t), 0, None)


def _cubic(a: float) -> Callable[[Any], Any]:
    """The kernel of cubic interpolation as a function of the distance; a is the parameter of Keys' kernels, usually -0.75 or
    -0.5.
    """

    def kernel(t: Any) -> Any:
        """The weight of a sample at the distance t, for |t| < 2: two cubic polynomials, by whether |t| <= 1."""
        t = np.abs(t)
        near, far = ((a + 2) * t - (a + 3)) * t**2 + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0))

    return kernel


# ---------------------------------------------------------------- Resize


def _origins(mode: str, count: int, n: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """The coordinate in the input of each element of the output along one axis, by the coordinate transformation `mode`.

    Args:
      mode: ONNX's `coordinate_transformation_mode`.
      count: the length of the axis in the output.
      n: its length in the input.
      scale: the ratio of the lengths.
      roi: the start and end of the region along this axis, which only "tf_crop_and_resize" uses.
    """
    i = np.arange(count, dtype=np.float64)
    middle = (i + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return i / scale
    if mode == "half_pixel":
        return middle
    if mode == "half_pixel_symmetric":
        return middle + n / 2 * (1 - count / (n * scale))
    if mode == "pytorch_half_pixel":
        return middle if count > 1 else np.zeros(1)
    if mode == "align_corners":
        return i * (n - 1) / (n * scale - 1) if count > 1 else np.zeros(1)
    if mode == "tf_crop_and_resize":
        start, end = roi
        inside = i * (end - start) * (n - 1) / (count - 1) if count > 1 else np.full(1, (end - start) * (n - 1) / 2)
        return inside + start * (n - 1)
    raise Refusal("a known coordinate_transformation_mode", mode)


def _matrix(x: np.ndarray, n: int, kernel: Callable[[Any], Any], reach: int, scale: float, excludes: int) -> np.ndarray:
    """The matrix that interpolates at the coordinates x: the weight of each of n pixels for each coordinate.

    `kernel` gives the weight at a distance of at most `reach` pixels, which `scale` < 1 stretches. With `excludes`, pixels outside
    of the image have weight zero; otherwise they repeat the edge.
    """
    reach = int(np.ceil(reach / scale))
    # The pixels near each coordinate, and their weights.
    taps = np.floor(x)[:, None] + np.arange(-reach, reach + 2)
    weights = kernel((taps - x[:, None]) * scale)
    if excludes:
        weights = np.where((taps < 0) | (taps > n - 1), 0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    result = np.zeros((len(x), n))
    np.add.at(result, (np.arange(len(x))[:, None], np.clip(taps, 0, n - 1).astype(int)), weights)
    return result


_NEAREST: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@operator("Resize", since=11, static=("roi", "scales", "sizes"))
def _resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    mode: str = "nearest",
    cubic_coeff_a: float = -0.75,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:
    """The array x resized along `axes` (None: all), by products with matrices of interpolation weights: ONNX's `Resize`.

    The new lengths are `sizes`, or the old ones times `scales`. `roi` has the starts and then the ends of the part of each axis for
    "tf_crop_and_resize". The other parameters are ONNX's attributes.
    """
    positions = tuple(a % x.ndim for a in axes) if axes else tuple(range(x.ndim))
    counts, factors = _lengths([x.shape[a] for a in positions], scales, sizes, keep_aspect_ratio_policy)
    region = np.zeros(2 * len(positions)) if roi is None or not roi.size else np.asarray(roi, np.float64)
    is_crop = coordinate_transformation_mode == "tf_crop_and_resize"
    for i, (axis, count, scale) in enumerate(zip(positions, counts, factors, strict=True)):
        n = x.shape[axis]
        if count == n and scale == 1 and not is_crop:
            continue
        where = _origins(coordinate_transformation_mode, count, n, scale, (region[i], region[i + len(positions)]))
        if mode == "nearest":
            x = nnp.take(x, np.clip(_NEAREST[nearest_mode](where), 0, n - 1).astype(np.int64), axis)
        else:
            kernel, reach = (_linear, 1) if mode == "linear" else (_cubic(cubic_coeff_a), 2)
            weights = _matrix(where, n, kernel, reach, min(scale, 1) if antialias else 1, exclude_outside)
            x = nnp.moveaxis(nnp.matmul(nnp.moveaxis(x, axis, -1), weights.T.astype(x.dtype)), -1, axis)
        if is_crop:
            is_inside = ((where >= 0) & (where <= n - 1)).reshape([-1 if j == axis else 1 for j in range(x.ndim)])
            x = nnp.where(is_inside, x, nnp.asarray(extrapolation_value, dtype=x.dtype))
    return x


@operator("Resize", since=10, static=("scales",))
def _resize_of_opset_10(x: Tensor, scales: Any = None, mode: str = "nearest") -> Tensor:
    return _resize(x, None, scales, None, mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@operator("Upsample", since=1, static=("scales",))
def _upsample(x: Tensor, scales: Any = None, mode: str = "nearest", height_scale: Any = None, width_scale: Any = None) -> Tensor:
    """The images x, resized by `scales` for each axis, or by the scales of height and width."""
    factors = np.array([1, 1, height_scale, width_scale]) if scales is None else np.ravel(scales)
    return _resize_of_opset_10(x, factors, "linear" if "linear" in mode else mode)


def _lengths(shape: Sequence[int], scales: Any, sizes: Any, policy: str) -> tuple[list[int], list[float]]:
    """The lengths of the axes of the result, and the scale of each axis, from ONNX's `scales` or `sizes`.

    `shape` has the lengths of the axes before. `policy` is "stretch", or all axes get one scale: the smallest one for "not_larger",
    otherwise the largest one.
    """
    if sizes is None or not np.size(sizes):
        factors = [float(s) for s in np.ravel(scales)]
        return [int(np.floor(n * s)) for n, s in zip(shape, factors, strict=True)], factors
    counts = list(numbers(sizes))
    ratios = [m / n for m, n in zip(counts, shape, strict=True)]
    if policy == "stretch":
        return counts, ratios
    scale = (min if policy == "not_larger" else max)(ratios)
    return [int(np.floor(n * scale + 0.5)) for n in shape], [scale] * len(shape)


# ---------------------------------------------------------------- values at positions


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates reflected at `low` and `high` until they are between both."""
    if high <= low:
        return nnp.zeros_like(x) + low
    period = 2 * (high - low)
    inside = nnp.remainder(x - low, period)
    return nnp.minimum(inside, period - inside) + low


def _samples(image: Tensor, positions: Sequence[Tensor], mode: str, padding: str, ends: Sequence[tuple[float, float]]) -> Tensor:
    """The interpolated values of images at coordinates between their pixels, shape (batch, channels, points).

    Args:
      image: an array (batch, channels, *spatial).
      positions: for each spatial axis, an array (batch, points) of coordinates.
      mode: "nearest", "linear" or "cubic".
      padding: "zeros", "border" or "reflection", for pixels outside of the image.
      ends: for each spatial axis, the coordinates at which "reflection" mirrors.
    """
    sizes = image.shape[2:]
    flat = image.reshape(*image.shape[:2], -1)
    strides = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    taps: list[list[tuple[Tensor, Any]]] = []  # for each axis, pairs of a pixel's coordinate and its weight; None is weight 1
    for x in positions:
        below = nnp.floor(x)
        if mode == "nearest":
            taps.append([(nnp.round(x), None)])
        elif mode == "linear":
            taps.append([(below, 1 - (x - below)), (below + 1, x - below)])
        else:
            taps.append([(below + i, _cubic_weight(x - below - i)) for i in (-1, 0, 1, 2)])
    total: Any = 0
    for corner in itertools.product(*taps):
        index: Any = 0
        weight: Any = None
        is_inside: Any = None
        for (pixel, w), n, stride, (low, high) in zip(corner, sizes, strides, ends, strict=True):
            if padding == "reflection":
                pixel = _reflected(pixel, low, high)
            if padding == "zeros":
                inside = (pixel >= 0) & (pixel <= n - 1)
                is_inside = inside if is_inside is None else is_inside & inside
            index = index + nnp.clip(nnp.round(pixel), 0, n - 1).astype(np.int64) * stride
            weight = w if weight is None else weight if w is None else weight * w
        found = nnp.take_along_axis(flat, nnp.broadcast_to(index[:, None], (*image.shape[:2], index.shape[-1])), 2)
        found = found if is_inside is None else nnp.where(is_inside[:, None], found, nnp.zeros_like(found))
        total = total + (found if weight is None else found * weight[:, None])
    return total.astype(image.dtype)


def _cubic_weight(t: Tensor, a: float = -0.75) -> Tensor:
    """The weight of a pixel at the distance t, of cubic interpolation with the parameter a."""
    t = nnp.abs(t)
    return nnp.where(t <= 1, ((a + 2) * t - (a + 3)) * t**2 + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a)


@operator("GridSample")
def _grid_sample(x: Tensor, grid: Tensor, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Tensor:
    """The interpolated values of images x at the coordinates in the last axis of `grid`, from -1 at the first edge to 1 at the
    last.

    `mode` is the interpolation, `padding_mode` the treatment of positions outside, and `align_corners` puts -1 and 1 at the centres
    of the outermost pixels.
    """
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    sizes, rank = x.shape[2:], x.ndim - 2
    positions, ends = [], []
    for i, n in enumerate(sizes):
        coordinate = grid[..., rank - 1 - i].reshape(grid.shape[0], -1)
        coordinate = (coordinate + 1) / 2 * (n - 1) if align_corners else ((coordinate + 1) * n - 1) / 2
        low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
        coordinate = nnp.round(coordinate) if kind == "nearest" else coordinate
        if padding_mode == "border" and kind != "cubic":
            coordinate = nnp.clip(coordinate, 0, n - 1)
        elif padding_mode == "reflection" and kind != "cubic":
            coordinate = _reflected(coordinate, low, high)
        positions.append(coordinate)
        ends.append((low, high))
    values = _samples(x, positions, kind, padding_mode, ends)
    return values.reshape(*x.shape[:2], *grid.shape[1:-1])


@operator("RoiAlign", static=("batch_indices",))
def _roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Any,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """The mean or maximum of interpolated samples in each cell of each region, shape (regions, channels, height, width).

    `rois` has the corners of the regions, which are multiplied by `spatial_scale`, and `batch_indices` the image of each.
    `sampling_ratio` is the number of samples along each axis of a cell; 0 is refused.
    """
    if sampling_ratio <= 0:
        raise Refusal(
            "a sampling_ratio, because otherwise the regions determine the number of samples", f"sampling_ratio={sampling_ratio}"
        )
    is_half = coordinate_transformation_mode == "half_pixel"
    corners = rois * spatial_scale - (0.5 if is_half else 0.0)
    axes = []
    for begin, end, count, n in ((1, 3, output_height, x.shape[2]), (0, 2, output_width, x.shape[3])):
        start, length = corners[:, begin], corners[:, end] - corners[:, begin]
        length = length if is_half else nnp.maximum(length, 1.0)
        steps = (np.arange(count * sampling_ratio) + 0.5) / (count * sampling_ratio)
        sample = start[:, None] + length[:, None] * steps.astype(x.dtype)
        axes.append((nnp.clip(sample, 0, n - 1), (sample >= -1) & (sample <= n)))
    (rows, in_rows), (columns, in_columns) = axes
    shape = (rois.shape[0], rows.shape[1], columns.shape[1])
    positions = [
        nnp.broadcast_to(rows[:, :, None], shape).reshape(shape[0], -1),
        nnp.broadcast_to(columns[:, None], shape).reshape(shape[0], -1),
    ]
    images = nnp.take(x, batch_indices, 0)
    parts = [_weighted_pixels(images, positions, offsets) for offsets in itertools.product((0, 1), repeat=2)]
    is_inside = (in_rows[:, :, None] & in_columns[:, None]).reshape(shape[0], 1, -1)
    cells = (shape[0], x.shape[1], output_height, sampling_ratio, output_width, sampling_ratio)
    if mode == "max":  # the maximum over the four weighted pixels of each sample, as in onnx
        best = nnp.max(nnp.stack([nnp.where(is_inside, p, nnp.zeros_like(p)) for p in parts]), 0)
        return nnp.max(best.reshape(cells), (3, 5))
    total = sum(parts)
    return nnp.mean(nnp.where(is_inside, total, nnp.zeros_like(total)).reshape(cells), (3, 5))


def _weighted_pixels(images: Tensor, positions: Sequence[Tensor], offsets: Sequence[int]) -> Tensor:
    """The pixel below (offset 0) or above (offset 1) each coordinate on both axes, times its weight in linear interpolation.

    `positions` are the coordinates along each axis.
    """
    index: Any = 0
    weight: Any = 1
    for coordinate, offset, n, stride in zip(positions, offsets, images.shape[2:], (images.shape[3], 1), strict=True):
        below = nnp.floor(coordinate)
        index = index + nnp.clip(below + offset, 0, n - 1).astype(np.int64) * stride
        weight = weight * ((coordinate - below) if offset else 1 - (coordinate - below))
    flat = images.reshape(*images.shape[:2], -1)
    found = nnp.take_along_axis(flat, nnp.broadcast_to(index[:, None], (*images.shape[:2], index.shape[-1])), 2)
    return found * weight[:, None]


@operator("DeformConv")
def _deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Any = None,
    mask: Any = None,
    kernel_shape: Any = None,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    group: int = 1,
    offset_group: int = 1,
) -> Tensor:
    """A convolution of the images x with the kernel w that reads each element of a window at the element's index plus `offset`.

    Each element is multiplied by `mask`, if given, and `bias` is added. `offset_group` is the number of groups of channels with
    their own offsets. The other parameters are those of a convolution.
    """
    if x.ndim != 4:
        raise Refusal("images of two spatial axes", f"shape {x.shape}")
    n, c, _, _ = x.shape
    window, out = w.shape[2:], offset.shape[2:]
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    shifts = offset.reshape(n, offset_group, *window, 2, *out)
    axes = []  # for each spatial axis, the coordinates that are read, by image and group: [window elements and results]
    for i in range(2):
        inside = (np.arange(window[i]) * dilations[i]).reshape([-1 if j == i else 1 for j in range(2)] + [1, 1])
        starts = (np.arange(out[i]) * strides[i] - pads[i]).reshape([1, 1] + [-1 if j == i else 1 for j in range(2)])
        axes.append(((inside + starts).astype(x.dtype) + shifts[:, :, :, :, i]).reshape(n * offset_group, -1))
    images = x.reshape(n * offset_group, c // offset_group, *x.shape[2:])
    values = _samples(images, axes, "linear", "zeros", [(0, 0)] * 2).reshape(n, offset_group, c // offset_group, *window, *out)
    if mask is not None:
        values = values * mask.reshape(n, offset_group, 1, *window, *out)
    values = values.reshape(n, group, c // group, *window, *out)
    kernel = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    # n: image, g: group, c: channel, o: result, ij: element of the window, hw: position of the window.
    y = nnp.einsum("ngcijhw,gocij->ngohw", values, kernel).reshape(n, w.shape[0], *out)
    return y if bias is None else y + bias.reshape(-1, 1, 1)
