"""The numbers at which one strategy becomes better than another, each with its unit and its source.

They stand here because they are nobody's mathematics: with another machine, or another IREE, they may be others. What is
`Measured` was timed once, on `MACHINE`, and `python bench/measure.py NAME` times it again, beside what stands here. What
is `Chosen` bounds something that is not a matter of speed alone. Read them as `thresholds.NAME` where they are needed, so
that a measurement can change them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, get_type_hints

MACHINE = "2 virtual cores of an Intel Xeon with AVX-512 and 2 MiB of L2 each; IREE 3.13; 2026-11-21 and 22"

MACHINE_AVX2 = "2 virtual cores of an AMD EPYC (Zen 3) with AVX2 and 512 KiB of L2 each; IREE 3.13; 2026-11-22"


@dataclass(frozen=True)
class Measured:
    """How a number was found: by time, in a unit. What it says stands in the comment above it."""

    unit: str
    machine: str = MACHINE


@dataclass(frozen=True)
class Chosen:
    """A number that no clock gives: its unit, and why it is what it is."""

    unit: str
    why: str


# ---------------------------------------------------------------- runtime

# A search in a sorted vector of so many compares each pair, in one operation; in a longer one it halves the vector.
COMPARED_PAIRWISE: Annotated[int, Chosen("elements", "six halvings are thirty operations, and memory is bounded")] = 64
# From here on a copy that NumPy makes, and that is then lent to IREE, is faster than one that IREE makes.
DIRECT_COPY: Annotated[int, Measured("bytes")] = 1 << 20
# Up to here a copy for NumPy takes less than a view of memory that is not NumPy's.
COPIED_READ: Annotated[int, Chosen("bytes", "a view takes 6 µs, a copy 1.5 and one for each 10 kB")] = 1 << 14
# From here on it is faster to lend the caller's memory for a result than to copy from a buffer.
LENT_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# What the thread pool costs in a call, where it wakes the cores of a virtual machine once, and for each dispatch. These are
# the numbers with which the choice of a driver is right most often: over the 36 functions of bench/ --quick that were timed
# with both drivers, the chosen one takes 1.02 of the better one's time, at worst 1.20; with 5 and 15 1.09 and 1.93.
POOL_CALL: Annotated[float, Measured("µs", "2 virtual cores of an AMD EPYC with AVX2; IREE 3.13; 2026-11-23")] = 55.0
POOL_DISPATCH: Annotated[float, Measured("µs", "2 virtual cores of an AMD EPYC with AVX2; IREE 3.13; 2026-11-23")] = 8.0
# Calls after which a timeline forgets those that have ended.
OPEN_CALLS: Annotated[int, Chosen("calls", "any number bounds the list; this one is looked through in a microsecond")] = 16

# ---------------------------------------------------------------- staging and transforms

# A captured array up to this size is part of the code; a larger one is an argument.
CAPTURED: Annotated[int, Chosen("elements", "small enough to be read in printed IR")] = 16
# Up to here linspace is a table, exact as NumPy's; longer ones are computed.
LINSPACE_TABLE: Annotated[int, Chosen("elements", "a table is part of the artifact: 32 KiB in f64")] = 4096

# A line of the user gets a warning if it traces a function so often and so long, or makes so many operations in one trace.
REPEATED_TRACES: Annotated[int, Chosen("traces", "a few are a session at the prompt")] = 100
TRACING_SECONDS: Annotated[float, Chosen("s", "a user waits, and jit would take less")] = 2.0
OPERATIONS_OF_A_LINE: Annotated[int, Chosen("operations", "one call of random.beta makes 2,400, and its gradient more")] = 10_000

# Outside `jit` a program is interpreted until that has taken as long as compiling it, and a compiled one is checked where that
# takes a small part of it: what compiling takes at least, in all and for each operation.
COMPILED_MODULE: Annotated[float, Chosen("µs", "sin(x) x of 64 numbers takes 0.45 s")] = 450_000.0
COMPILED_OPERATION: Annotated[float, Chosen("µs of processors", "20 programs of bench/ take 1 to 11 ms for each")] = 3_000.0
# What the interpreter takes for an operation besides its elements, and to read it before its first run.
STEP: Annotated[float, Chosen("µs", "operations on small arrays take 3 to 10")] = 4.0
READ_OPERATION: Annotated[float, Chosen("µs", "20 to 45")] = 30.0
# For each element, or each operation on numbers. Timed with 10⁵ numbers in f32 and f64, products of 200 x 200.
INTERPRETED_ELEMENT: Annotated[float, Chosen("ns", "0.2 to 3")] = 1.0
INTERPRETED_FUNCTION: Annotated[float, Chosen("ns", "exp and log 0.5 to 1, sin 0.6 and 8.4, logistic 2 and 14")] = 5.0
INTERPRETED_SPECIAL: Annotated[float, Chosen("ns", "of SciPy: erf 3.5, digamma 9, lgamma 13, erfinv 17")] = 15.0
DRAWN_ELEMENT: Annotated[float, Chosen("ns of an argument for a check, drawn, copied and given to the code", "20 to 30")] = 25.0
INTERPRETED_PICKED: Annotated[float, Chosen("ns of a gathered element", "x[i] of 10⁵ takes 17")] = 20.0
INTERPRETED_ONE_BY_ONE: Annotated[float, Chosen("ns", "scatters 35, sorts 80")] = 60.0
INTERPRETED_FLOP: Annotated[float, Chosen("ns", "0.02 in f32, 0.05 in f64, on one core")] = 0.05
INTERPRETED_CONVOLUTION: Annotated[float, Chosen("ns for each operation on numbers", "0.18 and 0.21")] = 0.2
INTERPRETED_ROW: Annotated[float, Chosen("µs of a row of a matrix that is factored", "10 to 50")] = 20.0
# What a perturbed run takes besides: for each operation and each element of a result.
PERTURBED_STEP: Annotated[float, Chosen("µs", "5 to 30")] = 12.0
PERTURBED_ELEMENT: Annotated[float, Chosen("ns", "4.3 in f32, 6.5 in f64")] = 5.0
# Of functions called outside `jit` so many are kept, compiled or read, and of each function of ours so many forms.
KEPT_FUNCTIONS: Annotated[int, Chosen("functions", "a compiled one takes about a megabyte")] = 512

# ---------------------------------------------------------------- reverse mode

# What a map over unit vectors may compute at once (Jacobians, Hessians and their diagonals); more is done in blocks. The
# result comes on top.
UNIT_VECTOR_MEMORY: Annotated[int, Chosen("bytes", "a small part of any machine's memory, and blocks that keep it busy")] = 1 << 30
# Iterations that a loop whose length its values decide keeps at a time: a shorter one runs forward twice, the extra work of
# a longer one grows with the square of their ratio.
LOOP_CHUNK: Annotated[int, Chosen("iterations", "memory against work: the length that is kept without being asked")] = 512
# No more of them are kept than fit into so much, unless the user says how much: each loop around another multiplies them.
LOOP_MEMORY: Annotated[int, Chosen("bytes", "a small part of any machine's memory")] = 1 << 30

# ---------------------------------------------------------------- prepared products

# Vectors that `apply_block` takes at once.
BLOCK: Annotated[int, Chosen("vectors", "one vector register of f32 with AVX-512")] = 16
# Below this size of a result an operation costs more than its work, so that a block of vectors is one batch.
SMALL_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# A block of vectors one after the other is written out up to here: a loop costs less to compile, and IREE may refuse our
# schedule in it.
WRITTEN_OUT: Annotated[int, Chosen("operations", "they compile in about ten seconds")] = 6000

# What a sum over batches keeps of them between products.
RESIDUALS: Annotated[int, Chosen("bytes", "an eighth of a small machine's memory")] = 1 << 30

# ---------------------------------------------------------------- estimates of calls

# Of one core; other CPUs differ by a factor that all of these share.
FLOP: Annotated[float, Measured("ns")] = 0.005
BYTE: Annotated[float, Measured("ns, read or written by a product")] = 0.02
ELEMENT: Annotated[float, Measured("ns, of an operation that fuses with its neighbours")] = 0.02
FUNCTION_ELEMENT: Annotated[float, Measured("ns, of a division, a root, a transcendental function")] = 0.4
MOVED_ELEMENT: Annotated[float, Measured("ns, of what has a loop of its own: reductions, transposes, concatenations")] = 0.2
SCATTERED_ELEMENT: Annotated[float, Measured("ns, of what is done one by one")] = 2.0
# Work that is shared among threads.
SHARED_WORK: Annotated[float, Chosen("ns", "a fifth of what the pool costs: less work is one workgroup")] = 10_000.0
# A loop that at most takes this long is not watched for Ctrl-C and time limits: a call in another thread takes 10 to 20 µs.
CAPPED_LOOP: Annotated[float, Chosen("ns", "nobody interrupts a call that ends in a tenth of a second")] = 1e8
UNKNOWN_TRIPS: Annotated[int, Chosen("iterations", "of a loop whose values decide: enough to count, not enough to rule")] = 100

# ---------------------------------------------------------------- compiling

# A module of so many lines is compiled in steps without verification after each pass, which costs a process; behind one of
# the steps its kernels are divided.
VERIFIED_ONCE: Annotated[int, Chosen("lines of MLIR", "a third is saved with 200, a tenth with 80, less than nothing with 6")] = 150
# The kernels of a long module are so many libraries, of which code is made side by side, if they have so many operations.
LIBRARIES: Annotated[
    int, Chosen("libraries", "with two cores the last step takes 0.78 of the time of one with 2, 0.93 with 3, 0.9 with 4")
] = 2
DIVIDED_KERNELS: Annotated[int, Chosen("operations", "5 % of the time is saved with 570, 12 % with 2,000")] = 500
# Kernels that our passes write are compiled beside the rest of the module, in a process of their own, if they have so many.
KERNELS_APART: Annotated[int, Chosen("operations", "2 % of the time is lost with 310, 10 % saved with 3,000")] = 1000

# ---------------------------------------------------------------- passes over plain StableHLO

# What a loop may store for products that are taken out of it.
STACKED: Annotated[int, Chosen("bytes", "memory: more of it costs more than the dispatches of the loop are worth")] = 1 << 26
# A product over fewer elements costs less than the row that is written and read instead.
HOISTED_PRODUCT: Annotated[int, Chosen("elements summed over", "half a vector register of f32")] = 8
# Sweeps of simplification; patterns that undo each other would never end.
SWEEPS: Annotated[int, Chosen("sweeps", "ordinary programs take two to four")] = 16

# ---------------------------------------------------------------- products on a CPU

# A workgroup has at least so many multiplications, so that its fixed cost does not show, and a dispatch has at most so many
# workgroups.
WORKGROUP_WORK: Annotated[int, Measured("multiplications")] = 1 << 16
WORKGROUPS: Annotated[int, Measured("workgroups")] = 64
# A product of fewer multiplications takes as long either way, and so does one of fewer rows or columns.
TILED_PRODUCT: Annotated[int, Measured("multiplications")] = 1 << 11
TILED_ROWS: Annotated[int, Measured("rows or columns")] = 4
# What a workgroup reads again and again of the first factor.
CACHED_FACTOR: Annotated[int, Measured("elements")] = 1 << 17
# A product of so many multiplications, and of such sizes (a vector at least), is worth packing its factors; with AVX-512,
# where there are tiles of our own for smaller ones, from more on.
PACKED_PRODUCT: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 20
PACKED_PRODUCT_AVX512: Annotated[
    int, Chosen("multiplications", "from here on tiles were measured to be far off for some shapes; the kernel was not")
] = 1 << 25
PACKED_SIDE: Annotated[int, Measured("rows, columns or terms", MACHINE_AVX2)] = 24
# Of a packed product: terms that are summed at a time, rows that a core's own cache holds of them, workgroups that there are
# at most, and the multiplications that are worth one.
PACKED_TERMS: Annotated[int, Measured("terms", MACHINE_AVX2)] = 256
PACKED_ROWS: Annotated[int, Measured("rows", MACHINE_AVX2)] = 144
PACKED_GROUPS: Annotated[int, Measured("workgroups", MACHINE_AVX2)] = 8
PACKED_GROUP_WORK: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 20
# A result from this size on has memory of its own.
PLACED_RESULT: Annotated[int, Chosen("bytes", "one page; smaller ones are no loss in a pool of slabs")] = 4096
# unless the program computes so much in all; it then takes far longer than the microsecond that each placed result costs.
PLACED_PROGRAM: Annotated[int, Chosen("bytes", "a slab has 64 MiB: as many small results can be held in one")] = 1 << 20
# From here on what a program computes on the way is in a buffer that its next call finds again.
PLACED_TRANSIENTS: Annotated[int, Chosen("bytes", "a pool of threads keeps as much by itself")] = 64 << 20
# What functions that ran before may keep of such buffers, all of them together.
KEPT_TRANSIENTS: Annotated[int, Chosen("bytes", "a hundredth of the memory of a machine")] = 256 << 20

# ---------------------------------------------------------------- kernels on a CPU

# Matrices of more rows are factored by a kernel; the plain form of others is one dispatch, and can be part of a loop's.
KERNEL_ROWS: Annotated[int, Measured("rows")] = 32
# A QR factorisation of more rows and columns is a kernel; the plain form of small ones shares a dispatch with what is around it.
REFLECTED_ROWS: Annotated[int, Chosen("rows", "8x8 took 0.7 of the kernel's time in that form, 30x30 in stacks of 200 2.4")] = 16
# So many numbers that are added at places of indices are worth a kernel.
SCATTER_AS_KERNEL: Annotated[int, Chosen("numbers", "a dispatch takes microseconds; small ones may be part of a loop")] = 1 << 14
RUNNING_AS_KERNEL: Annotated[int, Chosen("numbers", "a dispatch takes microseconds; small ones fuse with what is around")] = 1 << 12
RUNNING_AXIS: Annotated[int, Chosen("elements of an axis", "of fewer the shifts are few, and fuse")] = 16
# Rows of so many elements, and so many elements in all, are sorted by a kernel.
SORT_AS_KERNEL: Annotated[int, Chosen("elements", "a digit has 256 values to count, shorter rows are compared faster")] = 64
SORTED_BY_KERNEL: Annotated[int, Chosen("elements", "a dispatch takes microseconds; small ones may be part of a loop")] = 1 << 12
# Fourier transforms of so many elements in all are made by a kernel, in one step where a vector of them is not larger.
TRANSFORM_AS_KERNEL: Annotated[int, Chosen("elements", "a dispatch takes microseconds, small transforms share one")] = 1 << 11
TRANSFORM_MEMORY: Annotated[int, Chosen("bytes", "a core's own cache holds two, what is read and what is written")] = 1 << 17
# Rows that are factored before the matrix below them is changed.
CHOLESKY_PANEL: Annotated[int, Measured("rows")] = 64
# Columns that are factored before the matrix to their right is changed: a multiple of any tile's width.
LU_PANEL: Annotated[int, Measured("columns")] = 32
# At most so many vectors of a short dimension are written one after the other, without a loop.
UNROLLED: Annotated[int, Measured("vectors")] = 4
# Of a product, so many rows are summed at once, each as many vectors long as registers allow.
SUMMED_ROWS: Annotated[int, Measured("rows")] = 8
# A kernel saves about a microsecond for each dispatch that an iteration would be, and runs on one core: `tanh(h @ w + x)` is
# faster as a kernel up to here, and equally fast after; the Hessian-vector products of recurrent networks take half the time
# of theirs below, and half as much again at 3,000,000.
KERNEL_WORK: Annotated[int, Measured("operations in an iteration")] = 2_000_000
KERNEL_LINES: Annotated[int, Chosen("lines", "longer code takes the compiler seconds")] = 20_000
# A longer chain of elementwise operations is one operation.
CHAIN_COPIES: Annotated[int, Chosen("operations that IREE may write for it", "ordinary programs stay below 400")] = 1_000
LONG_CHAIN: Annotated[int, Chosen("operations", "the longest functions; a dispatch costs little beside them")] = 128
# A shorter one too if IREE would write so many values that only its own operations read.
SPILLING_CHAIN: Annotated[int, Chosen("operations", "what IREE makes of fewer, others are part of")] = 40
CHAIN_SPILLS: Annotated[int, Chosen("values", "of fewer, most are in the dispatch that reads them")] = 8
CHAIN_OPERATIONS: Annotated[int, Chosen("operations in one dispatch", "the compiler takes three seconds for so many")] = 10_000

# ---------------------------------------------------------------- checks

# A compiled program is checked where two runs of the interpreter, one of them perturbed, take at most this part of the time that
# compiling it does.
CHECKING_SHARE: Annotated[float, Chosen("of the compilation", "a user who compiles does not notice it")] = 0.1

# Arguments that a call gives away are copied for its check, up to so many bytes of them.
CHECKED_DONATION: Annotated[int, Chosen("bytes", "interpreting a program of more takes longer than a check may")] = 1 << 24

# ---------------------------------------------------------------- choices

# A branch of so many operations, with results of so many elements, is computed whether it is chosen or not.
BRANCH_OPERATIONS: Annotated[int, Chosen("operations of all branches", "the host waits longer for the predicate")] = 16
BRANCH_ELEMENTS: Annotated[int, Chosen("elements of a result", "the host chooses a larger one without a copy")] = 1 << 14

# ---------------------------------------------------------------- rewrites for a CPU

# To turn a right factor with so many times the rows of the left takes longer than the product: 16x512 times the transposed
# 20000x512 takes 4.4 ms, and 1.8 with the factors swapped; 64x512 15.3 and 5.3. Then IREE's own tiles are faster up to so many
# rows.
SWAPPED_FACTORS: Annotated[int, Measured("columns for each row")] = 8
SWAPPED_ROWS: Annotated[int, Measured("rows")] = 24
# What a dispatch of its own is worth. With rows one by one, 2000 logistic functions take 17 µs, else 2.
OWN_DISPATCH: Annotated[int, Measured("instructions")] = 10_000
# Sums of fewer terms take as long as such or as products.
SUM_AS_PRODUCT: Annotated[int, Measured("terms")] = 1 << 12
# IREE takes a sum over everything on one core, and one term after the other if it is not by rows.
SUM_BY_ROWS: Annotated[int, Measured("terms")] = 1 << 13
# From here on a sum is taken in two levels.
SUM_IN_PARTS: Annotated[int, Chosen("terms", "accuracy: 10⁶ squares in f32, one after the other, are 8e-4 off")] = 1 << 13
# From here on a product is computed in parts of its inner axis.
PRODUCT_IN_PARTS: Annotated[int, Chosen("terms", "accuracy: 10⁵ equal terms in f32, one after the other, are 7e-4 off")] = 1 << 15
# On a GPU a sum of so many terms is taken in two levels, where there are fewer results than it has threads.
PARALLEL_TERMS: Annotated[int, Chosen("terms", "H100: 65,536 terms of one sum take 60 to 100 µs in one group of threads")] = 1 << 12
PARALLEL_RESULTS: Annotated[int, Chosen("results", "an H100 runs 2,048 threads on each of 132 processors")] = 1 << 15
PARALLEL_PART: Annotated[int, Chosen("terms", "the threads of one group, which take the sum of the parts")] = 32
# A product has blocks of 64 x 64 results; in parts it has so many results, and at most so many parts.
PARALLEL_PRODUCT: Annotated[int, Chosen("results", "H100: 4 blocks take 555 µs for what 256 share")] = 1 << 20
PARALLEL_PARTS: Annotated[int, Chosen("parts", "the sum of the parts is one thread's, or one group's")] = 512
# What an update of a scatter, and each element of it, take one thread of a GPU; and how many choices all threads make in a ns.
SERIAL_UPDATE: Annotated[int, Chosen("ns", "H100, 100,000 updates of 3 and of 11 elements")] = 100
SERIAL_ELEMENT: Annotated[int, Chosen("ns", "H100, 50,000 updates of 64 elements")] = 30
PARALLEL_CHOICES: Annotated[int, Chosen("choices", "H100, where what they read is in its caches")] = 1000
# A smaller array is not worth a search for a better order of its axes.
ORDERED_ARRAY: Annotated[int, Chosen("elements", "16 KiB of f32 are in the first cache")] = 1 << 12
NARROW_AXIS: Annotated[int, Chosen("elements of a last axis", "with eight, vectors of it are as fast")] = 6
# A short stack is a choice by index; parts whose inner elements are more are copied well.
CHOSEN_PARTS: Annotated[int, Chosen("parts", "each is a selection for every element")] = 4
COPIED_PART: Annotated[int, Chosen("elements that stand together", "a copy of so many is one vector")] = 16
PIECES: Annotated[int, Chosen("different slices in a block", "more would be more code than it is worth")] = 64
# How often slices are looked for anew.
PIECE_ROUNDS: Annotated[int, Chosen("rounds", "a step and its derivative; more would compute all for more offsets")] = 2
# A product of so many multiplications is worth one of its own, where another order of axes is the alternative.
SEPARATE_PRODUCT: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 18
SEPARATE_PRODUCTS: Annotated[int, Chosen("products one after the other", "more would be more code than it is worth")] = 64
SPLIT_POSITIONS: Annotated[int, Chosen("positions of a result", "more would be more code than it is worth")] = 64
PATCH_WINDOW: Annotated[int, Chosen("positions of a window", "a slice for each: more would be more code than it is worth")] = 64
PATCHES: Annotated[int, Chosen("elements", "memory: 64 MiB of f32")] = 1 << 24

# ---------------------------------------------------------------- transforms

# A transform up to this length is one product with a matrix; one of a prime length up to the second, too.
DENSE_TRANSFORM: Annotated[int, Measured("elements")] = 64
DENSE_PRIME_TRANSFORM: Annotated[int, Measured("elements")] = 256
CONSTANT_ROOTS: Annotated[int, Chosen("roots of unity", "more would make the artifact large: they are computed")] = 1 << 16

# ---------------------------------------------------------------- sparsity

PATTERN_BOXES: Annotated[int, Chosen("boxes", "a pattern of more is no stencil: rows say it as well")] = 256
PATTERN_APART: Annotated[int, Chosen("boxes", "fewer are moved in less time than is spent on making one of several")] = 32
PATTERN_WRITTEN: Annotated[int, Chosen("entries", "written down as they are: in the time of a look for fewer boxes")] = 50_000
PATTERN_PIECES: Annotated[int, Chosen("runs of constant indices", "a box or more for each")] = 16
PATTERN_ENTRIES: Annotated[int, Chosen("entries", "memory: 8 bytes for each, a few times over while they are sorted")] = 1 << 27
PATTERN_STEPS: Annotated[int, Chosen("operations of loops that are followed iteration by iteration", "a few seconds of Python")] = (
    100_000
)
PATTERN_MOVES: Annotated[
    int, Chosen("elements that the turns of a loop read and write, and runs of columns that they join", "a few seconds of Python")
] = 1 << 24
PATTERN_TERMS: Annotated[int, Chosen("terms of a product", "sorted in half a second; of more, bits are joined")] = 1 << 22
PATTERN_TURNS: Annotated[int, Chosen("turns of a loop", "then four times as many, and so on: powers of one are tried")] = 16
PATTERN_ROUNDS: Annotated[int, Chosen("rounds of a fixed point", "then whole axes, later all columns, are assumed")] = 4

LATTICE_DIFFERENCES: Annotated[int, Chosen("entries of a row", "a stencil of more is none")] = 64
LATTICE_FIELDS: Annotated[int, Chosen("fields behind each other", "more are an axis of a grid")] = 64
LATTICE_FORMS: Annotated[int, Chosen("linear forms of one modulus", "memory and milliseconds")] = 1 << 15
LATTICE_TRIALS: Annotated[int, Chosen("forms whose trees are looked at", "each takes as long as a greedy coloring")] = 6
LATTICE_ENOUGH: Annotated[
    float, Chosen("times the bound", "of 176 column colorings of stencils no greedy one had fewer where the lattice had up to this")
] = 1.5
LATTICE_ALONE: Annotated[int, Chosen("edges", "of fewer, all greedy colorings take a few milliseconds: they are made too")] = 10_000
PULLBACK_COST: Annotated[float, Chosen("pushes forward", "a pullback does what two of them do, and stores residuals")] = 2.0
# Solvers get a matrix of `scipy.sparse` up to this part of its entries, and a dense one, or products, beyond it.
SPARSE_FRACTION: Annotated[
    float, Chosen("of all entries", "a factorisation of a fuller one fills up, and indices take more memory than entries")
] = 0.25
DENSE_HESSIAN: Annotated[
    int, Chosen("entries that one map over all columns computes", "64 columns: of more than that, some at a time take less memory")
] = 4096
COLORING_WORK: Annotated[int, Chosen("edges that orders and colorings visit", "a second or two of Python")] = 12_000_000


def table() -> dict[str, tuple[float, Measured | Chosen]]:
    """Each threshold, its value and its origin, by name.

    Example:
      >>> table()["DIRECT_COPY"][1].unit
      'bytes'
    """
    module = sys.modules[__name__]
    hints = get_type_hints(module, include_extras=True)
    return {name: (getattr(module, name), hint.__metadata__[0]) for name, hint in hints.items()}


def numbers() -> tuple[float, ...]:
    """The values of all thresholds, as a part of keys of caches.

    Example:
      >>> DIRECT_COPY in numbers()
      True
    """
    return tuple(value for value in globals().values() if isinstance(value, (int, float)))


# An elementwise value from this size on is made again for late readers, at so many instructions for each byte that this saves.
RECOMPUTED: Annotated[int, Chosen("bytes", "what fits a core's cache is not worth another loop")] = 1 << 20
RECOMPUTED_WORK: Annotated[int, Chosen("instructions a byte", "a byte that is written and read takes as long")] = 8
RECOMPUTED_AT_ONCE: Annotated[int, Chosen("values", "for the time of the search; activations consist of some tens")] = 256
# A program within a limit of memory forgets no value smaller than this part of the limit, does at most so many steps again for
# each of its own, and is compiled so many times, in which it is given so much of what it had.
FORGOTTEN: Annotated[int, Chosen("of the limit, the inverse", "smaller ones free too little to be worth the search")] = 1000
REMATERIALIZED: Annotated[int, Chosen("steps for each", "a program that takes that much longer is not what was asked for")] = 4
LIMIT_ATTEMPTS: Annotated[int, Chosen("compilations", "each is given less by what the one before had too many")] = 6
LIMIT_LARGEST: Annotated[float, Chosen("of the last", "so that six reach a sixth of the first")] = 0.7
LIMIT_SMALLEST: Annotated[float, Chosen("of the last", "so that each is another program")] = 0.95
# Sums of so many elements that are computed from values this much smaller are one kernel, of at most so many workgroups.
FUSED_SUMS: Annotated[int, Chosen("elements", "what fits a core's cache is not worth a kernel")] = 1 << 18
FUSED_SUMS_READ: Annotated[int, Chosen("elements for one", "what is read is small beside what is computed")] = 8
FUSED_SUMS_GROUPS: Annotated[int, Chosen("workgroups", "some for each core; each has partial sums")] = 16
FUSED_SUMS_SHARED: Annotated[int, Chosen("elements", "for fewer a second dispatch, which adds up the parts, costs as much")] = (
    1 << 16
)
# On a GPU sums of so many numbers are kernels, unless the array that they are added to is this many times larger.
GPU_SCATTER: Annotated[int, Chosen("numbers", "three kernels take as long as one thread for so many")] = 1 << 8
GPU_SCATTER_REST: Annotated[int, Chosen("times", "the kernels read and write the whole array")] = 64
# On a GPU a sum of so many numbers is a kernel if its numbers are not neighbours, or if it has fewer results than these.
GPU_SUM: Annotated[int, Chosen("numbers", "two kernels take as long as a few threads for so many")] = 1 << 14
GPU_SUM_RESULTS: Annotated[int, Chosen("results", "with more of them IREE uses enough threads")] = 1 << 12
# An iteration of a loop on a GPU has so many steps, if these have no more operations together.
UNROLLED_STEPS: Annotated[int, Chosen("steps", "a wait of the host takes as long as some ten kernels")] = 8
UNROLLED_OPERATIONS: Annotated[int, Chosen("operations", "each costs compile time")] = 800
# Reductions of so many elements are kernels, where IREE is slow; of fewer terms it keeps the results in registers, and is not.
KERNEL_TERMS: Annotated[int, Chosen("terms of a result", "fewer rows than these IREE adds up in registers")] = 32
SUM_AS_KERNEL: Annotated[int, Chosen("elements", "fewer IREE computes as fast, with what reads them")] = 1 << 15
