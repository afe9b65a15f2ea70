# ruff: isort: skip_file

"""Operations under the names and with the parameters of `jax.lax`.

They are second names of functions of `numpy`, `scipy.special` and the transforms, or thin wrappers of the same records.
"""

import sys as _sys
from typing import Any

from nabla_mlir.base.names import imported as _imported
from nabla_mlir.base.names import no_attribute as _no_attribute
from nabla_mlir.numpy import logic as _logic
from nabla_mlir.numpy import special_values as _special_values
from nabla_mlir.numpy import ufuncs as _ufuncs
from nabla_mlir.jax.scipy import special as _special
from nabla_mlir.jax.lax import linalg as linalg
from nabla_mlir.jax.lax.platforms import dce_sink as dce_sink, platform_dependent as platform_dependent
from nabla_mlir.jax.mirrored import mirror as _mirror
from nabla_mlir.jax.sharding import with_sharding_constraint as with_sharding_constraint
from nabla_mlir.jax.lax.convolution import (
    ConvDimensionNumbers as ConvDimensionNumbers,
    batch_matmul as batch_matmul,
    conv as conv,
    conv_dimension_numbers as conv_dimension_numbers,
    conv_general_dilated as conv_general_dilated,
    conv_general_dilated_patches as conv_general_dilated_patches,
    conv_transpose as conv_transpose,
    conv_with_general_padding as conv_with_general_padding,
    dot as dot,
    dot_general as dot_general,
    padtype_to_pads as padtype_to_pads,
)
from nabla_mlir.jax.lax.elementwise import (
    AccuracyMode as AccuracyMode,
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmPreset as DotAlgorithmPreset,
    Precision as Precision,
    RoundingMethod as RoundingMethod,
    bitcast_convert_type as bitcast_convert_type,
    clamp as clamp,
    clz as clz,
    complex as complex,
    convert_element_type as convert_element_type,
    div as div,
    dtype as dtype,
    ge as ge,
    gt as gt,
    integer_pow as integer_pow,
    le as le,
    lt as lt,
    mulhi as mulhi,
    optimization_barrier as optimization_barrier,
    population_count as population_count,
    reduce_precision as reduce_precision,
    rem as rem,
    round as round,
    select as select,
    select_n as select_n,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
)
from nabla_mlir.jax.lax.fourier import FftType as FftType, fft as fft
from nabla_mlir.jax.lax.indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    gather as gather,
    index_take as index_take,
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_apply as scatter_apply,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
)
from nabla_mlir.jax.lax.ragged import (
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
    ragged_dot as ragged_dot,
    ragged_dot_general as ragged_dot_general,
)
from nabla_mlir.jax.lax.reductions import (
    approx_max_k as approx_max_k,
    approx_min_k as approx_min_k,
    argmax as argmax,
    argmin as argmin,
    cumlogsumexp as cumlogsumexp,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    reduce as reduce,
    reduce_and as reduce_and,
    reduce_max as reduce_max,
    reduce_min as reduce_min,
    reduce_or as reduce_or,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    reduce_window as reduce_window,
    reduce_xor as reduce_xor,
    sort as sort,
    sort_key_val as sort_key_val,
    top_k as top_k,
)
from nabla_mlir.jax.lax.shapes import (
    broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim,
    broadcast_like as broadcast_like,
    broadcast_to_rank as broadcast_to_rank,
    broadcasted_iota as broadcasted_iota,
    collapse as collapse,
    concatenate as concatenate,
    empty as empty,
    expand_dims as expand_dims,
    full as full,
    full_like as full_like,
    index_in_dim as index_in_dim,
    iota as iota,
    pad as pad,
    reshape as reshape,
    rev as rev,
    shape_as_value as shape_as_value,
    slice as slice,
    slice_in_dim as slice_in_dim,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    transpose as transpose,
)
from nabla_mlir.numpy.index_modes import GatherScatterMode as GatherScatterMode
from nabla_mlir.numpy.indexing import dynamic_slice as dynamic_slice, dynamic_update_slice as dynamic_update_slice
from nabla_mlir.numpy.joining import unstack as unstack
from nabla_mlir.numpy.logic import (
    bitwise_and as bitwise_and,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
)
from nabla_mlir.numpy.shapes import broadcast_shapes as broadcast_shapes
from nabla_mlir.numpy.special_values import nextafter as nextafter
from nabla_mlir.numpy.ufuncs import (
    acos as acos,
    acosh as acosh,
    add as add,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cbrt as cbrt,
    ceil as ceil,
    conj as conj,
    cos as cos,
    cosh as cosh,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    imag as imag,
    log as log,
    log1p as log1p,
    real as real,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    tan as tan,
    tanh as tanh,
)
from nabla_mlir.jax.scipy.special import (
    betainc as betainc,
    digamma as digamma,
    erf as erf,
    erfc as erfc,
    polygamma as polygamma,
    zeta as zeta,
)
from nabla_mlir.transforms.collectives import (
    all_gather as all_gather,
    all_to_all as all_to_all,
    axis_index as axis_index,
    axis_size as axis_size,
    pbroadcast as pbroadcast,
    pmax as pmax,
    pmean as pmean,
    pmin as pmin,
    ppermute as ppermute,
    pshuffle as pshuffle,
    psum as psum,
    psum_scatter as psum_scatter,
    pswapaxes as pswapaxes,
)
from nabla_mlir.transforms.control import cond as cond, fori_loop as fori_loop, switch as switch, while_loop as while_loop
from nabla_mlir.transforms.gradients import stop_gradient as stop_gradient
from nabla_mlir.transforms.implicit import custom_linear_solve as custom_linear_solve, custom_root as custom_root
from nabla_mlir.transforms.scans import associative_scan as associative_scan, map as map, scan as scan

# Names of JAX for functions that have others here. Assignments, because type checkers take `equal as eq` for a private import.
eq = _logic.equal
ne = _logic.not_equal
shift_left = _logic.left_shift
is_finite = _special_values.isfinite
abs = _ufuncs.absolute
max = _ufuncs.maximum
min = _ufuncs.minimum
mul = _ufuncs.multiply
neg = _ufuncs.negative
pow = _ufuncs.power
sub = _ufuncs.subtract
bessel_i0e = _special.i0e
bessel_i1e = _special.i1e
erf_inv = _special.erfinv
igamma = _special.gammainc
igammac = _special.gammaincc
lgamma = _special.gammaln
logistic = _special.expit
_mirror(globals())


def __getattr__(name: str) -> Any:
    """The operations as primitives, such as `add_p`."""
    made = _imported(__name__, "nabla_mlir.jax.operations", "primitive")(name.removesuffix("_p")) if name.endswith("_p") else None
    if made is None:
        raise _no_attribute(f"module {__name__!r}", name, _sys.modules[__name__])
    return made
