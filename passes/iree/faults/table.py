"""The faults of IREE: valid modules that it refuses or computes wrongly. A record has the fault and its cure.

Each fault has a reproducer in tests/passes/faults: a module of one function, with arguments and the right answer.
tests/passes/test_iree_faults.py compiles it with IREE alone. If a new version of IREE computes it rightly, the test fails and
names the cure that can go. Some faults have flags of IREE as remedies instead. If a compilation fails by such a fault, its
remedies are tried one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.targets import CPU

_ISSUE = "https://github.com/iree-org/iree/issues/"


@dataclass(frozen=True)
class Fault:
    """A fault of IREE.

    Args:
      name: the name of the reproducer.
      what: the fault, in one sentence.
      cure: the pass or the module that can be deleted, or made smaller, once IREE is right.
      link: IREE's issue; "" if we know of none.
      since: the first version of IREE with the fault. The reproducers were run with 3.3, 3.6, and all versions from 3.9 on,
        so 3.3 may mean an earlier one. "" if it is not known.
      seen: the last version of IREE with the fault.
      targets: the targets with the fault; the reproducer runs on the first of them, and is compiled for the others.
      remedies: flags of IREE that help, in the order in which they are tried. They cost some speed.
    """

    name: str
    what: str
    cure: str
    link: str = ""
    since: str = "3.3"
    seen: str = "3.13"
    targets: tuple[str, ...] = ("cpu",)
    remedies: tuple[tuple[str, ...], ...] = ()


# Faults with a reproducer.
FAULTS = (
    Fault(
        "equal_results_of_a_dispatch",
        "If two results of a dispatch are equal, the later one is replaced by the first result of the dispatch.",
        "targets/base.py",
        "https://github.com/iree-org/iree/pull/20065",
        since="",
    ),
    Fault(
        "sum_of_a_narrow_constant", "A sum over a bfloat16 constant takes one lane of each vector.", "nabla-fold-numbers", since=""
    ),
    Fault("fft_of_7", "Transforms whose length is no power of two do not compile.", "nabla-legalize-fft", f"{_ISSUE}12263"),
    Fault("fft_of_rank_2", "Transforms along several axes do not compile.", "nabla-legalize-fft", f"{_ISSUE}22695"),
    Fault("fft_in_c128", "Transforms in double precision do not compile.", "nabla-legalize-fft"),
    Fault(
        "overlapping_windows",
        "select_and_scatter with windows that overlap does not compile.",
        "nabla-legalize-reductions",
        f"{_ISSUE}10841",
    ),
    Fault(
        "windows_with_equal_elements",
        "select_and_scatter selects the last of equal elements, not the first.",
        "nabla-legalize-reductions",
    ),
    Fault(
        "partial_window_of_a_scatter",
        "A scatter of windows smaller than their dimension does not compile.",
        "nabla-legalize-indexing",
    ),
    Fault("gather_out_of_range", "A gather reads outside of its operand.", "nabla-legalize-indexing", f"{_ISSUE}24881"),
    Fault("scatter_out_of_range", "A scatter writes outside of its operand.", "nabla-legalize-indexing"),
    Fault("erf_of_small_numbers", "The error function of numbers below 2^-120 is 0 in f32.", "nabla-legalize-math", since=""),
    Fault(
        "broadcast_of_a_cycle", "A broadcast along a cycle of dimensions sorts them in the wrong sense.", "nabla-legalize-indexing"
    ),
    Fault(
        "pad_of_complex_numbers",
        "Padding complex values with a constant kills the compiler.",
        "nabla-legalize-complex",
        targets=("cpu", "vulkan", "cuda"),
    ),
    Fault(
        "long_reversed_window",
        "A convolution whose window is read backwards and as long as a multiple of a tile does not compile.",
        "nabla-legalize-convolutions",
        since="",
    ),
    Fault(
        "depthwise_convolution_of_narrow_numbers",
        "A convolution with one kernel for each channel, of narrow numbers with a result in f32, does not compile.",
        "nabla-legalize-convolutions",
    ),
    Fault(
        "pads_with_one_wide_number",
        "Two pads with one padding value of 64 bits, which is not zero, do not compile if one operation reads both results.",
        "nabla-separate-constants",
    ),
    Fault(
        "padding_of_a_complex_convolution",
        "The padding of a complex convolution kills the compiler.",
        "nabla-legalize-convolutions",
        f"{_ISSUE}7621",
    ),
    Fault("float8_from_f16", "Conversions between float8 and float16 do not compile.", "nabla-legalize-types"),
    Fault("reversed_unsigned_numbers", "A reverse of unsigned numbers does not compile.", "nabla-legalize-types"),
    Fault("running_or", "Running windows of truth values do not compile.", "nabla-legalize-reductions"),
    Fault(
        "initial_value_of_a_scan",
        "Windows over all preceding elements ignore the initial value, and padding that consists of it.",
        "nabla-legalize-reductions",
        since="",
    ),
    Fault("sum_of_f16", "A sum of narrow floats is rounded after every term.", "nabla-legalize-reductions"),
    Fault("product_of_truth_values", "A product of truth values adds modulo 2.", "nabla-legalize-products", since=""),
    Fault("the_largest_with_nan", "The search for the largest element ignores NaN.", "nabla-legalize-sorts"),
    Fault("batch_norm_grad", "The gradient of a batch normalisation does not compile.", "nabla-legalize-reductions"),
    Fault("scatter_of_two_operands", "A scatter of several operands does not compile.", "nabla-legalize-indexing"),
    Fault("conversion_out_of_range", "A conversion to integers does not saturate.", "nabla-legalize-types"),
    Fault("sum_of_truth_values", "Truth values are added modulo 2.", "nabla-legalize-types"),
    Fault("power_of_a_negative_base", "A power is computed by a logarithm, which fails for negative bases.", "nabla-legalize-math"),
    Fault("sine_of_large_arguments", "Large arguments of sine and cosine are not reduced exactly.", "nabla-legalize-math"),
    Fault(
        "column_from_a_row_of_the_same_array",
        "An update reads elements of its own target that it has changed.",
        "nabla-separate-updates",
    ),
    Fault(
        "an_argument_that_is_updated",
        "An update of an argument is written into the caller's memory.",
        "nabla-keep-arguments",
        f"{_ISSUE}16168",
    ),
    Fault(
        "write_that_overtakes_a_read",
        "A buffer is updated before something else has read it.",
        "nabla-update-in-place",
        since="3.12",
    ),  # and in 3.3 and 3.6, but not from 3.9 to 3.11
    Fault(
        "equal_values_that_are_sorted",
        "Two equal values, also of different shapes, get one buffer, which two sorts "
        "overwrite if the host reads a number between them.",
        "nabla-update-in-place",
        since="",
    ),
    Fault(
        "loop_that_updates_an_outer_array",
        "A loop writes to an array outside the loop that its next iteration reads.",
        "nabla-update-in-place",
    ),
    Fault(
        "constant_updated_by_two_carries",
        "A constant from which two carries of a loop start is one buffer, which both "
        "update, if IREE is told that it need not copy.",
        "nabla-update-in-place",
        since="3.10",
    ),
    Fault(
        "rows_moved_by_one", "Rows of an array that replace other rows of it are copied onto themselves.", "nabla-separate-updates"
    ),
    Fault(
        "sums_broadcast_both_ways",
        "A sum that is broadcast along two dimensions is read before it is computed.",
        "nabla-separate-uses",
        since="3.12",
    ),
    Fault(
        "sort_of_a_slice", "A sort and the slice that it reads form one dispatch, which does not compile.", "nabla-separate-parts"
    ),
    Fault("reverse_of_a_column", "A reverse of elements that are not contiguous does not compile.", "nabla-separate-parts"),
    Fault("equal_elements_of_a_sort", "A stable sort does not keep the order of equal elements.", "nabla-legalize-sorts"),
    Fault("sort_of_one_operand_twice", "A sort of one operand twice does not compile.", "nabla-legalize-sorts"),
    Fault(
        "unused_result_of_a_sort",
        "An operand of a sort whose result is not used is put on the stack.",
        "nabla-keep-sorted",
        f"{_ISSUE}24735",
    ),
    Fault(
        "unused_result_of_a_sort_of_one_row",
        "A sort of one row does not compile if a result is not used whose operand decides between equal elements.",
        "nabla-keep-sorted",
        targets=("cuda",),
        since="",
    ),
    Fault(
        "scatter_of_gathered_rows",
        "All updates of a scatter are put on the stack if a gather or a reversal computes them.",
        "nabla-separate-parts",
        since="",
    ),
    Fault("collective_of_one_device", "Collective operations compile, but do not run.", "nabla-one-device"),
    Fault(
        "carry_that_the_test_reads",
        "A loop does not compile if constant work is moved out of it and only its condition reads a carry.",
        "nabla-read-carries",
        since="",
    ),
    Fault(
        "counter_as_f64",
        "The counter of a loop is converted to f64 on the host, which has no such conversion.",
        "nabla-legalize-types",
    ),
    Fault(
        "counter_as_f16",
        "The counter of a loop is converted to f16 on the host, which has no such conversion.",
        "nabla-legalize-types",
        since="",
    ),
    Fault(
        "counter_as_unsigned_number",
        "The counter of a loop is converted to an unsigned number on the host, which has none.",
        "nabla-legalize-types",
    ),
    Fault(
        "uniform_numbers",
        "Uniform numbers in narrow formats are rounded to their upper bound, which is excluded.",
        "nabla-legalize-types",
    ),
    Fault("product_over_nothing", "A product over a dimension of size 0 kills the compiler.", "nabla-legalize-products"),
    Fault(
        "product_of_a_narrow_number_with_itself",
        "A product of a narrow number with itself, of one element, does not compile.",
        "nabla-legalize-products",
        since="",
    ),
    Fault(
        "sum_of_products_with_a_vector",
        "A product with a vector, summed over rows and columns, does not compile.",
        "nabla-legalize-reductions",
    ),
    Fault("splat_in_c128", "A complex constant of 128 bits does not compile.", "nabla-legalize-complex"),
    Fault(
        "product_with_a_complex_constant",
        "In a product, a real constant that was converted to complex numbers is also used as its "
        "imaginary part: the unit matrix acts as 1 + i.",
        "nabla-legalize-complex",
        since="",
    ),
    Fault(
        "product_with_a_complex_choice",
        "In a product, a selection between complex constants also uses the real parts as imaginary parts.",
        "nabla-legalize-complex",
        since="",
    ),
    Fault(
        "complex_constant",
        "A complex constant whose elements differ does not compile.",
        "nabla-legalize-complex",
        targets=("vulkan",),
        since="",
    ),
    Fault(
        "loops_that_may_take_no_step",
        "The results of two loops that may have no iteration are one buffer, which is freed twice.",
        "nabla-hold-loop-results",
        targets=("vulkan",),
        since="",
    ),
    Fault(
        "loop_beside_a_reader",
        "A loop that the host counts does not compile if its initial values are read together with its results.",
        "nabla-wait-for-loops",
        since="",
    ),
    Fault("sort_of_1000", "More than 256 elements are sorted wrongly.", "nabla-legalize-sorts", targets=("vulkan",), since=""),
    Fault(
        "convolution_in_groups", "Convolutions in groups are zero.", "nabla-legalize-convolutions", targets=("vulkan",), since=""
    ),
    Fault(
        "remainder_by_infinity",
        "Remainders of large and infinite numbers are wrong.",
        "nabla-legalize-math",
        targets=("vulkan",),
        since="",
    ),
    Fault(
        "logarithm_near_one",
        "log_plus_one loses the digits of small numbers.",
        "nabla-legalize-math",
        targets=("vulkan",),
        since="",
    ),
    Fault("exponential_in_f64", "There are no functions in double precision.", "nabla-legalize-math", targets=("vulkan",)),
    Fault(
        "leading_zeros_of_64_bits", "Only the leading zeros of 32 bits can be counted.", "nabla-legalize-types", targets=("vulkan",)
    ),
    Fault("cholesky", "Matrix factorisations do not compile.", "nabla-legalize-linalg"),
    Fault("lapack", "Calls of LAPACK do not compile.", "nabla-legalize-linalg"),
)

# Flags that lead to other code around the same kernels, with other registers.
_OTHER_REGISTERS = (
    ("--iree-hal-force-indirect-command-buffers",),
    ("--iree-hal-indirect-command-buffers=false",),
    ("--iree-hal-memoization=false",),
    ("--iree-stream-partitioning-favor=debug",),
    ("--iree-stream-partitioning-favor=debug", "--iree-hal-force-indirect-command-buffers"),
)

# Faults of modules that are too large or too sensitive for a reproducer. A `CompileError` names the fault, by IREE's message
# (`nabla_mlir.compiling.internals.messages`) or by the code (`references.py` there).
WITH_REMEDIES = (
    Fault(
        "replayed_copies",
        "IREE's runtime replays the commands of an earlier call on Vulkan, whose copies read and write the buffers of that call: "
        "results and arguments are wrong from the second call on.",
        "targets/vulkan.py (`open_as`, `flags`)",
        since="3.13",
        targets=("vulkan",),
    ),
    Fault(
        "sum_of_small_sums",
        "A sum over a whole tensor does not compile for Vulkan if a small sum computes the tensor (the energy of charges).",
        "these flags",
        since="",
        remedies=(("--iree-dispatch-creation-element-wise-fuse-multi-reduction=false",),),
    ),
    Fault(
        "wide_convolution",
        "A 3x3 convolution to 256 features, fused with the next operation, does not compile (the block "
        "of 16 products of a convolutional network).",
        "these flags",
        since="",
        remedies=(CPU.for_wide_convolutions, ("--iree-llvmcpu-disable-distribution",)),
    ),
    Fault(
        "lost_buffer",
        "The code of a loop releases a buffer before it uses it; the remedies lead to other code.",
        "nabla_mlir/compiling/internals/held_references.py",
        f"{_ISSUE}24753",
        since="",
        remedies=_OTHER_REGISTERS,
    ),
    Fault(
        "overwritten_number",
        "A branch copies numbers of 32 and 64 bits to the next block, and overwrites one before it copies it: results are wrong "
        "without an error. The remedies lead to other registers.",
        "nabla_mlir/compiling/internals/block_arguments.py",
        since="",
        remedies=_OTHER_REGISTERS,
    ),
)


def remedies_for(name: str) -> tuple[tuple[str, ...], ...]:
    """The lists of flags of IREE to try, one after the other, for a module that does not compile because of this fault."""
    return next((fault.remedies for fault in WITH_REMEDIES if fault.name == name), ())
