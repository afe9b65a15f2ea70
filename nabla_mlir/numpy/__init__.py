# ruff: isort: skip_file
# A table of names, which the formatter would write in 400 lines:
# fmt: off
"""Functions on arrays with the names and semantics of NumPy and the array API standard.

They accept tensors inside a trace and concrete arrays outside. Outside a trace, each function is compiled once and cached.
"""

from __future__ import annotations

from typing import Any

from nabla_mlir.base import compiler as _compiler  # noqa: F401  (first of all: its error names a missing compiler)
from nabla_mlir.numpy import fft as fft, linalg as linalg, methods as methods, ufunc_methods as ufunc_methods
from nabla_mlir.numpy.bessel import i0 as i0
from nabla_mlir.numpy.calculus import (
    ediff1d as ediff1d, gradient as gradient, interp as interp, trapezoid as trapezoid, unwrap as unwrap,
)
from nabla_mlir.numpy.creation import (
    arange as arange, diag as diag, diagonal as diagonal, empty as empty, empty_like as empty_like, eye as eye, full as full,
    full_like as full_like, identity as identity, linspace as linspace, meshgrid as meshgrid, ones as ones,
    ones_like as ones_like, tri as tri, tril as tril, triu as triu, zeros as zeros, zeros_like as zeros_like,
)
from nabla_mlir.numpy.data_dependent import (
    argwhere as argwhere, flatnonzero as flatnonzero, nonzero as nonzero, unique as unique, unique_all as unique_all,
    unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as unique_values, where as where,
)
from nabla_mlir.numpy.division import (
    divmod as divmod, floor_divide as floor_divide, fmod as fmod, mod as mod, remainder as remainder,
)
from nabla_mlir.numpy.dtypes import (
    bool_ as bool_, can_cast as can_cast, complex128 as complex128, complex64 as complex64, dtype as dtype,
    e as e, euler_gamma as euler_gamma, extended as extended, finfo as finfo, float16 as float16, float32 as float32,
    float64 as float64, iinfo as iinfo, inf as inf, int16 as int16, int32 as int32, int64 as int64, int8 as int8,
    isdtype as isdtype, nan as nan, newaxis as newaxis, pi as pi, promote_types as promote_types, result_type as result_type,
    uint16 as uint16, uint32 as uint32, uint64 as uint64, uint8 as uint8,
)
from nabla_mlir.numpy.filtering import (
    bartlett as bartlett, blackman as blackman, convolve as convolve, correlate as correlate, hamming as hamming,
    hanning as hanning, kaiser as kaiser,
)
from nabla_mlir.numpy.extrema import (
    amax as amax, amin as amin, argmax as argmax, argmin as argmin, max as max, min as min, ptp as ptp,
)
from nabla_mlir.numpy.grids import (
    c_ as c_, diag_indices as diag_indices, diag_indices_from as diag_indices_from, index_exp as index_exp,
    indices as indices, ix_ as ix_, mask_indices as mask_indices, mgrid as mgrid, ogrid as ogrid, r_ as r_,
    ravel_multi_index as ravel_multi_index, s_ as s_, tril_indices as tril_indices, tril_indices_from as tril_indices_from,
    triu_indices as triu_indices, triu_indices_from as triu_indices_from, unravel_index as unravel_index,
)
from nabla_mlir.numpy.indexing import (
    dynamic_slice as dynamic_slice, dynamic_update_slice as dynamic_update_slice, take as take,
    take_along_axis as take_along_axis,
)
from nabla_mlir.numpy.inspection import __array_namespace_info__ as __array_namespace_info__
from nabla_mlir.numpy.joining import (
    array_split as array_split, column_stack as column_stack, concat as concat, concatenate as concatenate, diff as diff,
    dstack as dstack, hstack as hstack, split as split, stack as stack, unstack as unstack, vstack as vstack,
)
from nabla_mlir.numpy.linspaces import geomspace as geomspace, logspace as logspace
from nabla_mlir.numpy.logic import (
    bitwise_and as bitwise_and, bitwise_count as bitwise_count, bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not, bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor, clip as clip, equal as equal, greater as greater,
    greater_equal as greater_equal, invert as invert, isclose as isclose, left_shift as left_shift, less as less,
    less_equal as less_equal, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, not_equal as not_equal, right_shift as right_shift, select as select,
)
from nabla_mlir.numpy.mapping import (
    apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, piecewise as piecewise, vectorize as vectorize,
)
from nabla_mlir.numpy.nan_reductions import (
    nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod, nancumsum as nancumsum, nanmax as nanmax,
    nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar,
)
from nabla_mlir.numpy.numbers import (
    frexp as frexp, gcd as gcd, lcm as lcm, ldexp as ldexp, modf as modf, packbits as packbits, spacing as spacing,
    unpackbits as unpackbits,
)
from nabla_mlir.numpy.operands import array as array, asarray as asarray, from_dlpack as from_dlpack
from nabla_mlir.numpy.padding import pad as pad
from nabla_mlir.numpy.polynomials import (
    poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv, polyfit as polyfit, polyint as polyint,
    polymul as polymul, polysub as polysub, polyval as polyval, roots as roots, vander as vander,
)
from nabla_mlir.numpy.products import (
    cross as cross, dot as dot, einsum as einsum, einsum_path as einsum_path, inner as inner, kron as kron, matmul as matmul,
    matvec as matvec, outer as outer, tensordot as tensordot, trace as trace, vdot as vdot, vecdot as vecdot,
    vecmat as vecmat,
)
from nabla_mlir.numpy.quantiles import (
    median as median, nanmedian as nanmedian, nanpercentile as nanpercentile, nanquantile as nanquantile,
    percentile as percentile, quantile as quantile,
)
from nabla_mlir.numpy.queries import (
    ComplexWarning as ComplexWarning, array_equiv as array_equiv, array_repr as array_repr, array_str as array_str,
    cdouble as cdouble, character as character, complex_ as complex_, complexfloating as complexfloating, copy as copy,
    csingle as csingle, double as double, flexible as flexible, float_ as float_, floating as floating,
    frombuffer as frombuffer, fromfile as fromfile, fromfunction as fromfunction, fromiter as fromiter,
    fromstring as fromstring, generic as generic, get_printoptions as get_printoptions, inexact as inexact, int_ as int_,
    integer as integer, iscomplex as iscomplex, iscomplexobj as iscomplexobj, isreal as isreal, isrealobj as isrealobj,
    isscalar as isscalar, issubdtype as issubdtype, iterable as iterable, load as load, ndarray as ndarray, ndim as ndim,
    number as number, object_ as object_, printoptions as printoptions, save as save, savez as savez,
    set_printoptions as set_printoptions, shape as shape, signedinteger as signedinteger, single as single, size as size,
    uint as uint, unsignedinteger as unsignedinteger,
)
from nabla_mlir.numpy.rearranging import (
    append as append, argpartition as argpartition, block as block, choose as choose, compress as compress, delete as delete,
    diagflat as diagflat, dsplit as dsplit, extract as extract, fill_diagonal as fill_diagonal, hsplit as hsplit,
    insert as insert, lexsort as lexsort, partition as partition, place as place, put as put,
    put_along_axis as put_along_axis, resize as resize, rollaxis as rollaxis, sort_complex as sort_complex,
    trim_zeros as trim_zeros, vsplit as vsplit,
)
from nabla_mlir.numpy.reductions import (
    all as all, allclose as allclose, any as any, array_equal as array_equal, average as average,
    count_nonzero as count_nonzero, logsumexp as logsumexp, mean as mean, prod as prod, std as std, sum as sum, var as var,
)
from nabla_mlir.numpy.running import (
    cumlogsumexp as cumlogsumexp, cummax as cummax, cummin as cummin, cumprod as cumprod, cumsum as cumsum,
    cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum,
)
from nabla_mlir.numpy.segments import (
    segment_max as segment_max, segment_min as segment_min, segment_prod as segment_prod, segment_sum as segment_sum,
)
from nabla_mlir.numpy.sets import (
    intersect1d as intersect1d, setdiff1d as setdiff1d, setxor1d as setxor1d, union1d as union1d,
)
from nabla_mlir.numpy.repeats import repeat as repeat
from nabla_mlir.numpy.shapes import (
    astype as astype, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes, broadcast_to as broadcast_to,
    expand_dims as expand_dims, flip as flip, fliplr as fliplr, flipud as flipud, matrix_transpose as matrix_transpose,
    moveaxis as moveaxis, permute_dims as permute_dims, ravel as ravel, reshape as reshape,
    roll as roll, rot90 as rot90, squeeze as squeeze, swapaxes as swapaxes, tile as tile, transpose as transpose,
)
from nabla_mlir.numpy.sorting import (
    argsort as argsort, isin as isin, searchsorted as searchsorted, sort as sort, top_k as top_k,
)
from nabla_mlir.numpy.special_values import (
    copysign as copysign, isfinite as isfinite, isinf as isinf, isnan as isnan, isneginf as isneginf, isposinf as isposinf,
    nan_to_num as nan_to_num, nextafter as nextafter, signbit as signbit,
)
from nabla_mlir.numpy.statistics import (
    bincount as bincount, corrcoef as corrcoef, cov as cov, digitize as digitize, histogram as histogram,
    histogram2d as histogram2d, histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd,
)
from nabla_mlir.numpy.ufuncs import (
    abs as abs, absolute as absolute, acos as acos, acosh as acosh, add as add, angle as angle, arccos as arccos,
    arccosh as arccosh, arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctan2 as arctan2, arctanh as arctanh,
    around as around, asin as asin, asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh, cbrt as cbrt, ceil as ceil,
    conj as conj, conjugate as conjugate, cos as cos, cosh as cosh, deg2rad as deg2rad, degrees as degrees, divide as divide,
    exp as exp, exp2 as exp2, expm1 as expm1, fabs as fabs, fix as fix, float_power as float_power, floor as floor,
    fmax as fmax, fmin as fmin, heaviside as heaviside, hypot as hypot, imag as imag, log as log, log10 as log10,
    log1p as log1p, log2 as log2, logaddexp as logaddexp, logaddexp2 as logaddexp2, maximum as maximum, minimum as minimum,
    multiply as multiply, negative as negative, positive as positive, pow as pow, power as power, rad2deg as rad2deg,
    radians as radians, real as real, reciprocal as reciprocal, rint as rint, round as round, rsqrt as rsqrt, sign as sign,
    sin as sin, sinc as sinc, sinh as sinh, sqrt as sqrt, square as square, subtract as subtract, tan as tan, tanh as tanh,
    true_divide as true_divide, trunc as trunc,
)

bool = bool_

__array_api_version__ = "2025.12"


def __getattr__(name: str) -> Any:
    return extended(name)
