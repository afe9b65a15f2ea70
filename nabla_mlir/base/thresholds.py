"""The numbers at which one strategy becomes better than another, each with its unit and its source.

These numbers depend on the machine and on the version of IREE, not on mathematics. A `Measured` number was timed on
`MACHINE`; `python bench/measure.py NAME` times it on this machine and prints both. A `Chosen` number bounds memory, work
or accuracy, or was estimated. Code reads them as `thresholds.NAME`, so that a measurement can change them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, get_type_hints

MACHINE = "2 virtual cores of an Intel Xeon with AVX-512 and 2 MiB of L2 each; IREE 3.13; 2026-11-21 and 22"

MACHINE_AVX2 = "2 virtual cores of an AMD EPYC (Zen 3) with AVX2 and 512 KiB of L2 each; IREE 3.13; 2026-11-22"


@dataclass(frozen=True)
class Measured:
    """The source of a number that was timed: its unit, and the machine. The comment above the number says what it means."""

    unit: str
    machine: str = MACHINE


@dataclass(frozen=True)
class Chosen:
    """The source of a number that was not timed by `bench/measure.py`: its unit, and the reason for its value."""

    unit: str
    why: str


# ---------------------------------------------------------------- runtime

# A search in a sorted vector of up to this length compares all pairs in one operation; longer vectors are halved.
COMPARED_PAIRWISE: Annotated[int, Chosen("elements", "six halvings are thirty operations, and memory is bounded")] = 64
# From this size on, NumPy copies an argument faster than IREE does; IREE then reads NumPy's copy.
DIRECT_COPY: Annotated[int, Measured("bytes")] = 1 << 20
# Up to this size, copying a result for NumPy is faster than making a view of IREE's memory.
COPIED_READ: Annotated[int, Chosen("bytes", "a view takes 6 µs, a copy 1.5 and one for each 10 kB")] = 1 << 14
# From this size on, it is faster if IREE writes a result to memory of the caller than if it is copied from a buffer.
LENT_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# The cost of the thread pool for each call, in which it wakes the cores of a virtual machine once, and for each dispatch. With
# these numbers the choice of a driver is right most often: over the 36 functions of bench/ --quick, which were timed with both
# drivers, the chosen driver takes 1.02 of the better one's time, and 1.20 at worst; with 5 and 15 µs, 1.09 and 1.93.
POOL_CALL: Annotated[float, Measured("µs", "2 virtual cores of an AMD EPYC with AVX2; IREE 3.13; 2026-11-23")] = 55.0
POOL_DISPATCH: Annotated[float, Measured("µs", "2 virtual cores of an AMD EPYC with AVX2; IREE 3.13; 2026-11-23")] = 8.0
# After so many calls, a timeline removes the calls that have ended from its list.
OPEN_CALLS: Annotated[int, Chosen("calls", "any number bounds the list; a list of 16 is searched in a microsecond")] = 16

# ---------------------------------------------------------------- staging and transforms

# A captured array up to this size is part of the code; a larger one is an argument.
CAPTURED: Annotated[int, Chosen("elements", "small enough to be read in printed IR")] = 16
# Up to this length, linspace is a constant with the numbers of NumPy; a longer one is computed.
LINSPACE_TABLE: Annotated[int, Chosen("elements", "a table is part of the artifact: 32 KiB in f64")] = 4096

# The user gets a warning about a line that traces a function this often and for this long, or about a loop of Python that
# makes this many operations in one trace.
REPEATED_TRACES: Annotated[int, Chosen("traces", "a few are a session at the prompt")] = 100
TRACING_SECONDS: Annotated[float, Chosen("s", "a user waits, and jit would take less")] = 2.0
OPERATIONS_OF_A_LOOP: Annotated[int, Chosen("operations", "a network of a hundred layers makes fewer")] = 5_000

# Outside `jit`, a program is interpreted until this has taken as long as a compilation would. A compiled program is checked if
# the check takes a small part of the compilation. The estimated time of a compilation: for the module, and for each operation.
COMPILED_MODULE: Annotated[float, Chosen("µs", "sin(x) x of 64 numbers takes 0.45 s")] = 450_000.0
COMPILED_OPERATION: Annotated[float, Chosen("µs of processors", "20 programs of bench/ take 1 to 11 ms for each")] = 3_000.0
# The time of the interpreter for an operation without its elements, and for reading an operation before its first run.
STEP: Annotated[float, Chosen("µs", "operations on small arrays take 3 to 10")] = 4.0
READ_OPERATION: Annotated[float, Chosen("µs", "20 to 45")] = 30.0
# The time for each element, or each operation on numbers. Timed with 10⁵ numbers in f32 and f64, and products of 200 x 200.
INTERPRETED_ELEMENT: Annotated[float, Chosen("ns", "0.2 to 3")] = 1.0
INTERPRETED_FUNCTION: Annotated[float, Chosen("ns", "exp and log 0.5 to 1, sin 0.6 and 8.4, logistic 2 and 14")] = 5.0
INTERPRETED_SPECIAL: Annotated[float, Chosen("ns", "SciPy's erf 3.5, digamma 9, lgamma 13, erfinv 17")] = 15.0
DRAWN_ELEMENT: Annotated[float, Chosen("ns of an argument for a check, drawn, copied and given to the code", "4 to 8")] = 6.0
INTERPRETED_PICKED: Annotated[float, Chosen("ns of a gathered element", "x[i] of 10⁵ takes 17")] = 20.0
INTERPRETED_ONE_BY_ONE: Annotated[float, Chosen("ns", "scatters 35, sorts 80")] = 60.0
INTERPRETED_FLOP: Annotated[float, Chosen("ns", "0.02 in f32, 0.05 in f64, on one core")] = 0.05
INTERPRETED_CONVOLUTION: Annotated[float, Chosen("ns for each operation on numbers", "0.18 and 0.21")] = 0.2
INTERPRETED_ROW: Annotated[float, Chosen("µs of a row of a matrix that is factored", "10 to 50")] = 20.0
# The additional time of a perturbed run: for each operation, and for each element of a result.
PERTURBED_STEP: Annotated[float, Chosen("µs", "5 to 30")] = 12.0
PERTURBED_ELEMENT: Annotated[float, Chosen("ns", "0.7 to 1.4 in f32, 1.7 to 3 in f64")] = 2.0
# The number of functions called outside `jit` whose compiled or interpreted form is cached, and of forms of each transformed
# function.
CACHED_FUNCTIONS: Annotated[int, Chosen("functions", "a compiled one takes about a megabyte")] = 512

# ---------------------------------------------------------------- reverse mode

# The memory that a map over unit vectors may use at once, for Jacobians, Hessians and their diagonals; larger maps run in
# blocks. The memory of the result is additional.
UNIT_VECTOR_MEMORY: Annotated[int, Chosen("bytes", "a small part of any machine's memory, and blocks that keep it busy")] = 1 << 30
# The number of iterations that reverse mode stores at a time for a loop whose length depends on its values. A shorter loop runs
# forward twice; the extra work of a longer one grows with the square of the ratio of both lengths.
LOOP_CHUNK: Annotated[int, Chosen("iterations", "memory against work: the default number of stored iterations")] = 512
# The memory of the stored iterations, unless the user states another limit: nested loops multiply the stored iterations.
LOOP_MEMORY: Annotated[int, Chosen("bytes", "a small part of any machine's memory")] = 1 << 30

# ---------------------------------------------------------------- prepared products

# The number of vectors that `apply_block` multiplies at once.
BLOCK: Annotated[int, Chosen("vectors", "one vector register of f32 with AVX-512")] = 16
# For results below this size, the fixed cost of an operation exceeds its work, so a block of vectors is computed as one batch.
SMALL_RESULT: Annotated[int, Measured("bytes")] = 1 << 16
# A block of vectors that are multiplied one after the other is unrolled up to so many operations. A loop compiles faster, but
# IREE may refuse the schedule of nabla_mlir in it.
WRITTEN_OUT: Annotated[int, Chosen("operations", "they compile in about ten seconds")] = 6000

# The memory of the residuals that a sum over batches stores between products.
RESIDUALS: Annotated[int, Chosen("bytes", "an eighth of a small machine's memory")] = 1 << 30

# ---------------------------------------------------------------- estimates of calls

# The times of one core. On other CPUs all of these numbers differ by about the same factor.
FLOP: Annotated[float, Measured("ns")] = 0.005
BYTE: Annotated[float, Measured("ns, read or written by a product")] = 0.02
ELEMENT: Annotated[float, Measured("ns, of an operation that fuses with its neighbours")] = 0.02
FUNCTION_ELEMENT: Annotated[float, Measured("ns, of a division, a root, a transcendental function")] = 0.4
MOVED_ELEMENT: Annotated[float, Measured("ns, of an operation with its own loop: reductions, transposes, concatenations")] = 0.2
SCATTERED_ELEMENT: Annotated[float, Measured("ns, of an operation that handles elements one by one")] = 2.0
# From this amount of work on, an operation is shared among threads.
SHARED_WORK: Annotated[float, Chosen("ns", "a fifth of the cost of the pool: less work is one workgroup")] = 10_000.0
# A loop that at most takes this long is not watched for Ctrl-C and time limits: a call in another thread takes 10 to 20 µs.
CAPPED_LOOP: Annotated[float, Chosen("ns", "nobody interrupts a call that ends in a tenth of a second")] = 1e8
UNKNOWN_TRIPS: Annotated[int, Chosen("assumed iterations of a loop of unknown length", "it counts, but does not dominate")] = 100

# ---------------------------------------------------------------- compiling

# A module with so many lines is compiled in several steps, without verification after each pass. Each step is a process; after
# one of them, the kernels are divided into libraries.
VERIFIED_ONCE: Annotated[int, Chosen("lines of MLIR", "a sixth of the CPU time is saved with 22, a third with 29 to 136")] = 20
# The kernels of a long module become so many libraries, which are compiled in parallel, if the kernels have so many operations.
LIBRARIES: Annotated[
    int, Chosen("libraries", "with two cores the last step takes 0.78 of the time of one with 2, 0.93 with 3, 0.9 with 4")
] = 2
DIVIDED_KERNELS: Annotated[int, Chosen("operations", "5 % of the time is saved with 570, 12 % with 2,000")] = 500
# Kernels that passes of nabla_mlir write are compiled in a separate process, in parallel to the module, if they have so many
# operations.
SEPARATE_KERNELS: Annotated[int, Chosen("operations", "2 % of the time is lost with 310, 10 % saved with 3,000")] = 1000

# ---------------------------------------------------------------- passes over plain StableHLO

# The memory that a loop may use to store the factors of products that are moved out of it.
STACKED: Annotated[int, Chosen("bytes", "memory: more memory costs more than the saved dispatches of the loop")] = 1 << 26
# A product over fewer elements stays in its loop: it costs less than the row that would be written and read instead.
HOISTED_PRODUCT: Annotated[int, Chosen("elements summed over", "half a vector register of f32")] = 8
# So many equal consecutive blocks become a loop if it has so many operations less, no views, slices or broadcasts; if values are
# large, more: a stencil on 40 kB takes 1.5 times as long in a loop, on 4 kB 0.9 times. A block may read so many earlier blocks.
ROLLED_REPETITIONS: Annotated[int, Chosen("blocks", "networks with equal layers have fewer")] = 16
ROLLED_OPERATIONS: Annotated[int, Chosen("operations", "they take seconds to compile, and the loop one")] = 500
ROLLED_LARGE_FACTOR: Annotated[int, Chosen("times as many operations", "they take tens of seconds to compile")] = 4
ROLLED_LARGE: Annotated[int, Chosen("bytes of a value", "half of a first cache")] = 1 << 14
ROLLED_LAG: Annotated[int, Chosen("blocks", "methods of multiple steps read up to five")] = 8
# The largest number of sweeps of simplification. Without a limit, two patterns that undo each other would run forever.
SWEEPS: Annotated[int, Chosen("sweeps", "ordinary programs take two to four")] = 16

# ---------------------------------------------------------------- products on a CPU

# A workgroup has at least so many multiplications, so that its fixed cost is small. A dispatch has at most so many workgroups.
WORKGROUP_WORK: Annotated[int, Measured("multiplications")] = 1 << 16
WORKGROUPS: Annotated[int, Measured("workgroups")] = 64
# Products with fewer multiplications, rows or columns take the same time with and without tiles.
TILED_PRODUCT: Annotated[int, Measured("multiplications")] = 1 << 11
TILED_ROWS: Annotated[int, Measured("rows or columns")] = 4
# The number of elements of the first factor that a workgroup reads repeatedly.
CACHED_FACTOR: Annotated[int, Measured("elements")] = 1 << 17
# Packing the factors pays for a product with so many multiplications and so many rows, columns and terms. With AVX-512 the
# limit is higher, because nabla_mlir has tiles for smaller products there.
PACKED_PRODUCT: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 20
PACKED_PRODUCT_AVX512: Annotated[
    int, Chosen("multiplications", "for larger products tiles were measured to be slow for some shapes; the kernel was not")
] = 1 << 25
PACKED_SIDE: Annotated[int, Measured("rows, columns or terms", MACHINE_AVX2)] = 24
# A packed product sums so many terms at a time, for so many rows, which fit the cache of a core. It has at most so many
# workgroups, each with at least so many multiplications.
PACKED_TERMS: Annotated[int, Measured("terms", MACHINE_AVX2)] = 256
PACKED_ROWS: Annotated[int, Measured("rows", MACHINE_AVX2)] = 144
PACKED_GROUPS: Annotated[int, Measured("workgroups", MACHINE_AVX2)] = 8
PACKED_GROUP_WORK: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 20
# A result from this size on has separate memory.
PLACED_RESULT: Annotated[int, Chosen("bytes", "one page; smaller results waste little of a pool of slabs")] = 4096
# If a program computes so many bytes in all, smaller results have separate memory, too. It then takes far longer than the
# microsecond that a separate result costs.
PLACED_PROGRAM: Annotated[int, Chosen("bytes", "a slab has 64 MiB, so one slab holds as many small results")] = 1 << 20
# If the intermediate values of a program need so much memory, they are in a buffer that the next call uses, too.
PLACED_TRANSIENTS: Annotated[int, Chosen("bytes", "a pool of threads pools as much by itself")] = 64 << 20
# The memory of such buffers that all functions may hold together after they have run.
POOLED_TRANSIENTS: Annotated[int, Chosen("bytes", "a hundredth of the memory of a machine")] = 256 << 20

# ---------------------------------------------------------------- kernels on a CPU

# Matrices with more rows are factored by a kernel. The plain form of smaller ones is one dispatch, and can be part of a loop's
# dispatch.
KERNEL_ROWS: Annotated[int, Measured("rows")] = 32
# A QR factorisation with more rows and columns is a kernel. The plain form of a small one shares a dispatch with its neighbours.
REFLECTED_ROWS: Annotated[int, Chosen("rows", "8x8 took 0.7 of the kernel's time in that form, 30x30 in stacks of 200 2.4")] = 16
# A scatter that adds so many numbers is a kernel.
SCATTER_AS_KERNEL: Annotated[int, Chosen("numbers", "a dispatch takes microseconds; small ones may be part of a loop")] = 1 << 14
# A running sum over so many numbers, along an axis of so many elements, is a kernel.
RUNNING_AS_KERNEL: Annotated[int, Chosen("numbers", "a dispatch takes microseconds; small ones fuse with neighbours")] = 1 << 12
RUNNING_AXIS: Annotated[int, Chosen("elements of an axis", "shorter axes need few shifts, which fuse")] = 16
# Rows of so many elements are sorted by a kernel, if the array has so many elements in all.
SORT_AS_KERNEL: Annotated[int, Chosen("elements", "a digit has 256 values to count; comparisons are faster for shorter rows")] = 64
SORTED_BY_KERNEL: Annotated[int, Chosen("elements", "a dispatch takes microseconds; small ones may be part of a loop")] = 1 << 12
# Fourier transforms of so many elements in all are computed by a kernel, in one step if a vector of transforms has at most so
# many bytes.
TRANSFORM_AS_KERNEL: Annotated[int, Chosen("elements", "a dispatch takes microseconds, small transforms share one")] = 1 << 11
TRANSFORM_MEMORY: Annotated[int, Chosen("bytes", "the cache of a core holds two of them: the input and the output")] = 1 << 17
# The number of rows that are factored before the matrix below them is updated.
CHOLESKY_PANEL: Annotated[int, Measured("rows")] = 64
# The number of columns that are factored before the matrix to their right is updated: a multiple of the width of every tile.
LU_PANEL: Annotated[int, Measured("columns")] = 32
# A dimension of at most so many vectors is unrolled.
UNROLLED: Annotated[int, Measured("vectors")] = 4
# The number of rows of a product that are summed at once; registers limit the length of each.
SUMMED_ROWS: Annotated[int, Measured("rows")] = 8
# A loop as one kernel saves about a microsecond for each dispatch of an iteration, and runs on one core. Up to this limit,
# `tanh(h @ w + x)` is faster as a kernel; above it, both forms take the same time. The Hessian-vector products of recurrent
# networks take half the time as kernels below the limit, and 1.5 times the time at 3,000,000.
KERNEL_WORK: Annotated[int, Measured("operations in an iteration")] = 2_000_000
KERNEL_LINES: Annotated[int, Chosen("lines", "longer code takes the compiler seconds")] = 20_000
# A chain of elementwise operations becomes one operation if IREE would write so many copies of its operations, or if it is this
# long.
CHAIN_COPIES: Annotated[int, Chosen("operations that IREE may write for it", "ordinary programs stay below 400")] = 1_000
LONG_CHAIN: Annotated[int, Chosen("operations", "only the longest functions; a dispatch costs little next to them")] = 128
# A chain of so many operations becomes one, too, if IREE would write so many values to memory that only the chain reads.
SPILLING_CHAIN: Annotated[int, Chosen("operations", "IREE fuses shorter chains with their neighbours")] = 40
CHAIN_SPILLS: Annotated[int, Chosen("values", "fewer values are mostly in the dispatch that reads them")] = 8
CHAIN_OPERATIONS: Annotated[int, Chosen("operations in one dispatch", "the compiler takes three seconds for so many")] = 10_000

# ---------------------------------------------------------------- checks

# A compiled program is checked if two runs of the interpreter, one of them perturbed, take at most this part of the time of its
# compilation.
CHECKING_SHARE: Annotated[float, Chosen("of the compilation", "a user who compiles does not notice it")] = 0.1

# In a check in parts, an operation that takes the interpreter longer than this is compiled.
PART: Annotated[float, Chosen("ns", "a small module compiles in half a second")] = 5e7

# Such a check continues with other random arguments until the interpreter has taken so many steps.
CHECK_IN_PARTS: Annotated[float, Chosen("steps", "2 s; perturbed runs take ten times as long")] = 5e5

# Donated arguments of up to so many bytes are copied for the check of a call.
CHECKED_DONATION: Annotated[int, Chosen("bytes", "interpreting a program of more takes longer than a check may")] = 1 << 24

# ---------------------------------------------------------------- choices

# All branches of a choice are computed, without a branch on the host, if they have at most so many operations and results of at
# most so many elements.
BRANCH_OPERATIONS: Annotated[int, Chosen("operations of all branches", "the host waits longer for the predicate")] = 16
BRANCH_ELEMENTS: Annotated[int, Chosen("elements of a result", "the host chooses a larger one without a copy")] = 1 << 14

# ---------------------------------------------------------------- rewrites for a CPU

# If the right factor has this many times the rows of the left one, transposing it takes longer than the product: 16x512 times
# the transpose of 20000x512 takes 4.4 ms, and 1.8 ms with swapped factors; for 64x512, 15.3 and 5.3 ms. After the swap, the
# tiles of IREE are faster up to so many rows.
SWAPPED_FACTORS: Annotated[int, Measured("columns for each row")] = 8
SWAPPED_ROWS: Annotated[int, Measured("rows")] = 24
# The work from which an operation has a separate dispatch. 2000 logistic functions take 17 µs row by row, and 2 µs otherwise.
OWN_DISPATCH: Annotated[int, Measured("instructions")] = 10_000
# Sums of fewer terms take the same time as sums and as products.
SUM_AS_PRODUCT: Annotated[int, Measured("terms")] = 1 << 12
# IREE computes a sum of all elements on one core, and adds one term after the other unless the sum is by rows.
SUM_BY_ROWS: Annotated[int, Measured("terms")] = 1 << 13
# From this number of terms on, a sum is computed in two levels.
SUM_IN_PARTS: Annotated[int, Chosen("terms", "accuracy: 10⁶ squares in f32, one after the other, are 8e-4 off")] = 1 << 13
# From this number of terms on, a product is computed in parts of its inner axis.
PRODUCT_IN_PARTS: Annotated[int, Chosen("terms", "accuracy: 10⁵ equal terms in f32, one after the other, are 7e-4 off")] = 1 << 15
# On a GPU, a sum of so many terms is computed in two levels if it has fewer results than the GPU has threads.
PARALLEL_TERMS: Annotated[int, Chosen("terms", "H100: 65,536 terms of one sum take 60 to 100 µs in one group of threads")] = 1 << 12
PARALLEL_RESULTS: Annotated[int, Chosen("results", "an H100 runs 2,048 threads on each of 132 processors")] = 1 << 15
PARALLEL_PART: Annotated[int, Chosen("terms", "the threads of one group, which take the sum of the parts")] = 32
# A product has blocks of 64 x 64 results. If it has fewer results than this, it is computed in parts, at most so many.
PARALLEL_PRODUCT: Annotated[int, Chosen("results", "H100: 4 blocks take 555 µs for what 256 share")] = 1 << 20
PARALLEL_PARTS: Annotated[int, Chosen("parts", "one thread or one group adds the parts")] = 512
# The time of one thread of a GPU for an update of a scatter, and for each of its elements; and the number of selections that all
# threads make in a ns.
SERIAL_UPDATE: Annotated[int, Chosen("ns", "H100, 100,000 updates of 3 and of 11 elements")] = 100
SERIAL_ELEMENT: Annotated[int, Chosen("ns", "H100, 50,000 updates of 64 elements")] = 30
PARALLEL_CHOICES: Annotated[int, Chosen("selections", "H100, with the operands in its caches")] = 1000
# A better order of axes is searched for arrays from this size on.
ORDERED_ARRAY: Annotated[int, Chosen("elements", "16 KiB of f32 are in the first cache")] = 1 << 12
NARROW_AXIS: Annotated[int, Chosen("elements of a last axis", "vectors along an axis of eight are as fast")] = 6
# A concatenation of at most so many parts is a selection by index. Parts with more contiguous elements are copied instead.
CHOSEN_PARTS: Annotated[int, Chosen("parts", "each part is a selection for every element")] = 4
COPIED_PART: Annotated[int, Chosen("contiguous elements", "a copy of so many is one vector")] = 16
PIECES: Annotated[int, Chosen("different slices in a block", "more would be more code than it is worth")] = 64
# The number of rounds in which slices are searched.
PIECE_ROUNDS: Annotated[int, Chosen("rounds", "a step and its derivative; more would compute all for more offsets")] = 2
# A product with so many multiplications is computed separately, if the alternative is another order of axes.
SEPARATE_PRODUCT: Annotated[int, Measured("multiplications", MACHINE_AVX2)] = 1 << 18
SEPARATE_PRODUCTS: Annotated[int, Chosen("products one after the other", "more would be more code than it is worth")] = 64
SPLIT_POSITIONS: Annotated[int, Chosen("positions of a result", "more would be more code than it is worth")] = 64
PATCH_WINDOW: Annotated[int, Chosen("positions of a window", "a slice for each: more would be more code than it is worth")] = 64
PATCHES: Annotated[int, Chosen("elements", "memory: 64 MiB of f32")] = 1 << 24

# ---------------------------------------------------------------- transforms

# A transform of up to this length is one product with a matrix; for prime lengths, the second limit applies.
DENSE_TRANSFORM: Annotated[int, Measured("elements")] = 64
DENSE_PRIME_TRANSFORM: Annotated[int, Measured("elements")] = 256
CONSTANT_ROOTS: Annotated[int, Chosen("roots of unity", "more would make the artifact large: they are computed")] = 1 << 16

# ---------------------------------------------------------------- sparsity

PATTERN_BOXES: Annotated[int, Chosen("boxes", "a pattern with more boxes is no stencil, and is stored as rows")] = 256
PATTERN_LOOSE: Annotated[int, Chosen("boxes", "up to so many are moved faster than they are merged")] = 32
PATTERN_WRITTEN: Annotated[int, Chosen("entries", "stored one by one: a search for fewer boxes would take as long")] = 50_000
PATTERN_PIECES: Annotated[int, Chosen("runs of constant indices", "a box or more for each")] = 16
PATTERN_ENTRIES: Annotated[int, Chosen("entries", "memory: 8 bytes for each, a few times over while they are sorted")] = 1 << 27
PATTERN_STEPS: Annotated[int, Chosen("operations of loops that are followed iteration by iteration", "a few seconds of Python")] = (
    100_000
)
PATTERN_MOVES: Annotated[
    int, Chosen("elements that iterations read and write, and runs of columns that they join", "a few seconds of Python")
] = 1 << 24
PATTERN_TERMS: Annotated[int, Chosen("terms of a product", "sorted in half a second; for more terms, bits are joined")] = 1 << 22
PATTERN_ITERATIONS: Annotated[
    int, Chosen("iterations of a loop", "after so many, and after 4, 16, ... times as many, powers are tried")
] = 16
PATTERN_ROUNDS: Annotated[int, Chosen("rounds of a fixed point", "after them whole axes are assumed, and later all columns")] = 4

LATTICE_DIFFERENCES: Annotated[int, Chosen("entries of a row", "a row with more entries is no stencil")] = 64
LATTICE_FIELDS: Annotated[int, Chosen("concatenated fields", "more of them are an axis of a grid")] = 64
LATTICE_FORMS: Annotated[int, Chosen("linear forms of one modulus", "memory and milliseconds")] = 1 << 15
LATTICE_TRIALS: Annotated[int, Chosen("forms whose trees are checked", "each takes as long as a greedy coloring")] = 6
LATTICE_ENOUGH: Annotated[
    float, Chosen("times the bound", "for 176 stencils, no greedy coloring was better than a lattice within this bound")
] = 1.5
LATTICE_ALONE: Annotated[int, Chosen("edges", "with fewer, greedy colorings take milliseconds, and are tried too")] = 10_000
PULLBACK_COST: Annotated[float, Chosen("pushes forward", "a pullback does what two of them do, and stores residuals")] = 2.0
# Solvers get a matrix of `scipy.sparse` if at most this part of its entries is nonzero, and a dense matrix or products otherwise.
SPARSE_FRACTION: Annotated[
    float, Chosen("of all entries", "the factors of a fuller matrix are dense, and indices take more memory than entries")
] = 0.25
DENSE_HESSIAN: Annotated[
    int, Chosen("entries that one map over all columns computes", "64 columns; blocks of columns take less memory for more")
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


# An elementwise value from this size on is recomputed for late readers, if this costs at most so many instructions for each
# saved byte.
RECOMPUTED: Annotated[int, Chosen("bytes", "a value that fits the cache of a core is not worth another loop")] = 1 << 20
RECOMPUTED_WORK: Annotated[int, Chosen("instructions a byte", "a byte that is written and read takes as long")] = 8
RECOMPUTED_AT_ONCE: Annotated[int, Chosen("values", "the search takes time; activations consist of some tens of values")] = 256
# The plan for a limit of memory drops no value smaller than the limit divided by FORGOTTEN, and recomputes at most so many steps
# for each step of the program.
FORGOTTEN: Annotated[int, Chosen("parts of the limit", "smaller values free too little to be worth the search")] = 1000
REMATERIALIZED: Annotated[int, Chosen("recomputed steps for each step", "a program that slow is useless")] = 4
# A program with a limit of memory is compiled at most so many times. Each attempt plans with a smaller limit: between
# LIMIT_LARGEST and LIMIT_SMALLEST times the limit of the previous attempt.
LIMIT_ATTEMPTS: Annotated[int, Chosen("compilations", "each reduces the limit by the excess of the one before")] = 6
LIMIT_LARGEST: Annotated[float, Chosen("of the last", "six attempts reach a sixth of the first limit")] = 0.7
LIMIT_SMALLEST: Annotated[float, Chosen("of the last", "each attempt gives another program")] = 0.95
# Sums of so many elements are one kernel if the values from which the elements are computed are this many times fewer. The
# kernel has at most so many workgroups.
FUSED_SUMS: Annotated[int, Chosen("elements", "values that fit the cache of a core are not worth a kernel")] = 1 << 18
FUSED_SUMS_READ: Annotated[int, Chosen("elements for each element that is read", "reading is cheap next to computing")] = 8
FUSED_SUMS_GROUPS: Annotated[int, Chosen("workgroups", "some for each core; each has partial sums")] = 16
FUSED_SUMS_SHARED: Annotated[int, Chosen("elements", "with fewer, the second dispatch, which adds the parts, costs as much")] = (
    1 << 16
)
# On a GPU, a scatter that adds so many numbers is a kernel, unless its array is this many times larger.
GPU_SCATTER: Annotated[int, Chosen("numbers", "three kernels take as long as one thread for so many")] = 1 << 8
GPU_SCATTER_REST: Annotated[int, Chosen("times", "the kernels read and write the whole array")] = 64
# On a GPU, a sum of so many numbers is a kernel if its numbers are not contiguous, or if it has fewer results than this.
GPU_SUM: Annotated[int, Chosen("numbers", "two kernels take as long as a few threads for so many")] = 1 << 14
GPU_SUM_RESULTS: Annotated[int, Chosen("results", "with more of them IREE uses enough threads")] = 1 << 12
# A loop on a GPU is unrolled by so many steps, if these have at most so many operations together.
UNROLLED_STEPS: Annotated[int, Chosen("steps", "a wait of the host takes as long as some ten kernels")] = 8
UNROLLED_OPERATIONS: Annotated[int, Chosen("operations", "each costs compile time")] = 800
# Reductions with so many terms for each result, and so many elements, are kernels: IREE is slow for them.
KERNEL_TERMS: Annotated[int, Chosen("terms of a result", "IREE adds fewer terms in registers, and is fast")] = 32
SUM_AS_KERNEL: Annotated[int, Chosen("elements", "IREE computes smaller ones as fast, fused with their readers")] = 1 << 15
