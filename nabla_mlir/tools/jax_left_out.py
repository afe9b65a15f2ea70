"""Names of JAX that nabla_mlir has under another name or leaves out, with reasons, and parameters that it does not accept."""

from __future__ import annotations

SUFFIX = {"_p": "the primitives of JAX's own tracer (records are in `nabla_mlir/ops`)"}

ELSEWHERE = {
    "jax.copy_to_host_async": "`np.asarray`: reading an array copies it",
    "jax.export": "`nm.trace(...).lower().compile(...).save(path)`, and `nm.load`",
    "jax.ffi": "`nm.custom_call` and `nm.register_custom_call`",
    "jax.ad_checkpoint.print_saved_residuals": "the IR, which shows the stored values: `print(nm.trace(nm.grad(f), x).lower())`",
    "jax.lax.rng_uniform": "`nm.random.uniform`",
    "jax.lax.rng_bit_generator": "`nm.random.bits`",
    "jax.lax.linalg.eig": "`nm.numpy.linalg.eig`",
    "jax.numpy.frompyfunc": "`nm.numpy.vectorize`",
    "jax.numpy.ufunc": "plain functions; those of two arrays have `outer`, associative ones `reduce`, `accumulate` and `at`",
}

_DEVICES = "for several devices or processes; there is one of each here"
_SETTINGS = "settings of JAX's own compiler, tracer and caches"
_INNER = "internal parts of JAX"
_REFS = "references to mutable memory"
_SEEDS = "internal parts of random number generation; `nm.random` has the numbers and their derivatives"
_TYPES = "dtypes that IREE does not have"
_NUMBERS = "enumerations of algorithms, where there is one algorithm"
_RARE = "rarely used, not written yet"
_EFFECTS = "parts of JAX's callbacks or of its debugger (inside `nm.disable_jit`, Python's own debugger stops anywhere)"

LEFT_OUT: dict[str, dict[str, str]] = {
    _DEVICES: {
        "jax": "Shard distributed host_count host_id host_ids make_array_from_callback "
        "make_array_from_process_local_data make_array_from_single_device_arrays process_indices "
        "remove_size_one_mesh_axis_from_type smap auto_pcast memory",
        "jax.lax": "after_all create_token pcast precv psend ragged_all_to_all stage platform_dependent",
        "jax.debug": "inspect_array_sharding visualize_array_sharding visualize_sharding",
    },
    _SETTINGS: {
        "jax": "allow_f16_reductions array_garbage_collection_guard check_tracer_leaks debug_key_reuse "
        "default_prng_impl enable_checks enable_custom_prng explain_cache_misses "
        "jax2tf_associative_scan_reductions legacy_prng_key live_arrays log_compiles make_user_context monitoring no_execution "
        "no_tracing print_environment_info profiler softmax_custom_jvp thread_guard "
        "threefry_partitionable transfer_guard_device_to_device transfer_guard_device_to_host "
        "transfer_guard_host_to_device",
        "jax.lax": "AccuracyMode DotAlgorithm DotAlgorithmPreset Tolerance",
    },
    _INNER: {
        "jax": "ad lib fwd_and_bwd ds",
        "jax.dlpack": "is_supported_dtype",
        "jax.lax": "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike RaggedDotDimensionNumbers "
        "conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple "
        "reduce_window_shape_tuple shape_as_value composite",
        "jax.nn": "get_scaled_dot_general_config",
        "jax.ad_checkpoint": "Offloadable Recompute Saveable",
        "jax.dtypes": "itemsize_bits scalar_type_of",
        "jax.tree": "static",
        "jax.tree_util": "flatten_one_level flatten_one_level_with_keys is_tree_node",
    },
    _REFS: {"jax": "empty_ref free_ref freeze ref"},
    _SEEDS: {"jax.lax": "random_gamma_grad igamma_grad_a RandomAlgorithm"},
    _TYPES: {"jax.numpy": "float4_e2m1fn float6_e2m3fn float6_e3m2fn int1 int2 int4 uint1 uint2 uint4"},
    _NUMBERS: {"jax.lax.linalg": "EigImplementation EighImplementation SvdAlgorithm"},
    _EFFECTS: {"jax.debug": "DebugEffect OrderedDebugEffect breakpoint"},
    _RARE: {"jax.lax": "conv_general_dilated_local ragged_dot_general scaled_dot", "jax.nn": "scaled_dot_general scaled_matmul"},
}

# Parameters that functions of nabla_mlir do not accept: in all functions ("*"), and by the path of a function.
PARAMETERS = {
    "*": "out out_sharding sharding accuracy promote_integers overwrite_input kind order "
    "reduce_axes mean wrap_negative_indices allow_negative_indices algorithm implementation axis_index_groups "
    "hermitian subset_by_index",
    "jax.checkpoint": "concrete static_argnames",
    "jax.lax.linalg.qdwh": "dynamic_shape",
    "jax.remat": "concrete",
    "jax.vmap": "spmd_axis_name sum_match",
    "jax.numpy.argsort": "dtype",
    "jax.numpy.einsum": "_dot_general",
    "jax.numpy.mask_indices": "size",
    "jax.numpy.nanpercentile": "weights",
    "jax.numpy.nanquantile": "weights",
    "jax.numpy.percentile": "weights",
    "jax.numpy.quantile": "weights",
    "jax.numpy.ravel_multi_index": "dtype",
    "jax.numpy.trim_zeros": "axis",
    "jax.numpy.unique": "axis sorted",
    "jax.numpy.fmax": "x1 x2",
    "jax.numpy.fmin": "x1 x2",
    "jax.numpy.linalg.slogdet": "method",
    "jax.lax.all_gather": "to",
    "jax.lax.atan2": "x y",
    "jax.dtypes.issubdtype": "a b",
    "jax.debug.print": "partitioned _use_logging",
    "jax.debug.callback": "partitioned",
    "jax.debug.log": "partitioned",
    "jax.lax.mul": "out_dtype",
    "jax.lax.polygamma": "m",
    "jax.lax.scan": "_split_transpose",
    "jax.lax.linalg.qr": "use_magma",
    "jax.lax.linalg.tridiagonal_solve": "perturb_singular",
    "jax.scipy.linalg.eigh_tridiagonal": "select_range tol key",
    "jax.scipy.linalg.polar": "eps max_iterations",
}
