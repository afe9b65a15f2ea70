"""The pipelines that prepare a module for IREE: their passes in order, each with the reason for its position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nabla_mlir.passes.base import NamedPipeline, Step, register_pipeline, require_target
from nabla_mlir.passes.iree.faults.choose_on_device import ChooseOnDevicePass
from nabla_mlir.passes.iree.faults.count_loops import CountLoopsPass
from nabla_mlir.passes.iree.faults.forget_empty import ForgetEmptyPass
from nabla_mlir.passes.iree.faults.forget_unique_indices import ForgetUniqueIndicesPass
from nabla_mlir.passes.iree.faults.hold_loop_results import HoldLoopResultsPass
from nabla_mlir.passes.iree.faults.keep_arguments import KeepArgumentsPass
from nabla_mlir.passes.iree.faults.keep_sorted import KeepSortedPass
from nabla_mlir.passes.iree.faults.legalize_complex import LegalizeComplexPass
from nabla_mlir.passes.iree.faults.legalize_convolutions import LegalizeConvolutionsPass
from nabla_mlir.passes.iree.faults.legalize_indexing import LegalizeIndexingPass
from nabla_mlir.passes.iree.faults.legalize_products import LegalizeProductsPass
from nabla_mlir.passes.iree.faults.legalize_reductions import LegalizeReductionsPass
from nabla_mlir.passes.iree.faults.legalize_sorts import LegalizeSortsPass
from nabla_mlir.passes.iree.faults.legalize_types import LegalizeTypesPass
from nabla_mlir.passes.iree.faults.limit_buffers import LimitBuffersPass
from nabla_mlir.passes.iree.faults.one_device import OneDevicePass
from nabla_mlir.passes.iree.faults.products_in_parts import ProductsInPartsPass
from nabla_mlir.passes.iree.faults.read_carries import ReadCarriesPass
from nabla_mlir.passes.iree.faults.separate_constants import SeparateConstantsPass
from nabla_mlir.passes.iree.faults.separate_parts import SeparatePartsPass
from nabla_mlir.passes.iree.faults.separate_updates import SeparateUpdatesPass
from nabla_mlir.passes.iree.faults.separate_uses import SeparateUsesPass
from nabla_mlir.passes.iree.faults.sums_in_parts import SumsInPartsPass
from nabla_mlir.passes.iree.faults.update_in_place import UpdateInPlacePass
from nabla_mlir.passes.iree.faults.verify_supported import VerifySupportedPass
from nabla_mlir.passes.iree.faults.wait_for_loops import WaitForLoopsPass
from nabla_mlir.passes.iree.forget_final import ForgetFinalPass
from nabla_mlir.passes.iree.gpu.gpu_scatters_as_kernels import GpuScattersAsKernelsPass
from nabla_mlir.passes.iree.gpu.gpu_sums_as_kernels import GpuSumsAsKernelsPass
from nabla_mlir.passes.iree.gpu.products_as_kernels import ProductsAsKernelsPass
from nabla_mlir.passes.iree.gpu.unroll_loops import UnrollLoopsPass
from nabla_mlir.passes.iree.kernels.fuse_chains import FuseChainsPass
from nabla_mlir.passes.iree.kernels.fuse_sums import FuseSumsPass
from nabla_mlir.passes.iree.kernels.loops_as_kernels import LoopsAsKernelsPass
from nabla_mlir.passes.iree.kernels.running_as_kernels import RunningAsKernelsPass
from nabla_mlir.passes.iree.kernels.scatters_as_kernels import ScattersAsKernelsPass
from nabla_mlir.passes.iree.kernels.sums_as_kernels import SumsAsKernelsPass
from nabla_mlir.passes.iree.linalg.legalize_linalg import LegalizeLinalgPass
from nabla_mlir.passes.iree.math.fold_numbers import FoldNumbersPass
from nabla_mlir.passes.iree.math.legalize_fft import LegalizeFftPass
from nabla_mlir.passes.iree.math.legalize_math import LegalizeMathPass
from nabla_mlir.passes.iree.scheduling.flatten_indices import FlattenIndicesPass
from nabla_mlir.passes.iree.scheduling.fold_reshapes import FoldReshapesPass
from nabla_mlir.passes.iree.scheduling.gather_patches import GatherPatchesPass
from nabla_mlir.passes.iree.scheduling.gather_rows import GatherRowsPass
from nabla_mlir.passes.iree.scheduling.limit_memory import LimitMemoryPass
from nabla_mlir.passes.iree.scheduling.order_axes import OrderAxesPass
from nabla_mlir.passes.iree.scheduling.place_results import PlaceResultsPass
from nabla_mlir.passes.iree.scheduling.push_up_slices import PushUpSlicesPass
from nabla_mlir.passes.iree.scheduling.recompute import RecomputePass
from nabla_mlir.passes.iree.scheduling.reuse_tapes import ReuseTapesPass
from nabla_mlir.passes.iree.scheduling.schedule_products import ScheduleProductsPass
from nabla_mlir.passes.iree.scheduling.schedule_sums import ScheduleSumsPass
from nabla_mlir.passes.iree.scheduling.separate_blocks import SeparateBlocksPass
from nabla_mlir.passes.iree.scheduling.split_convolutions import SplitConvolutionsPass
from nabla_mlir.passes.iree.scheduling.split_dilated_convolutions import SplitDilatedConvolutionsPass
from nabla_mlir.passes.iree.scheduling.split_sums import SplitSumsPass
from nabla_mlir.passes.iree.scheduling.stacks_as_choices import StacksAsChoicesPass
from nabla_mlir.passes.iree.scheduling.sum_updates import SumUpdatesPass
from nabla_mlir.passes.roll.roll_loops import RollLoopsPass


@register_pipeline
@dataclass(frozen=True)
class LegalizeForIreePipeline(NamedPipeline):
    """Rewrite operations that IREE 3.13 computes wrongly, inexactly or not at all into operations that it computes rightly.

    Each pass creates only operations that the same or later passes still rewrite, so one run of each pass is enough.
    tests/passes/test_iree_pipeline.py checks this with samples of every operation.
    """

    name: ClassVar[str] = "nabla-legalize-for-iree"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    vector_bytes: int = 0  # width of the CPU's vector registers, for kernels of large factorisations; 0: products
    triton: int = 0  # compute capability of the GPU for which Triton compiles kernels; 0: no such kernels
    steps: ClassVar[tuple[Step, ...]] = (
        Step(VerifySupportedPass, "A program that no pass can mend is refused first, with the user's line."),
        Step(OneDevicePass, "Collective operations disappear or become constants, which leaves less to rewrite."),
        Step(ForgetEmptyPass, "Values without elements need no other rewrite."),
        Step(CountLoopsPass, "It creates conversions of counters, which later passes rewrite. Later loops count upwards already."),
        Step(
            LegalizeLinalgPass, "Decompositions consist of operations that later passes rewrite: roots, products, gathers, sorts."
        ),
        Step(
            ProductsAsKernelsPass,
            "Decompositions contain products, and later passes would change their types and pad convolutions.",
            needs="triton",
        ),
        Step(GpuScattersAsKernelsPass, "It recognises sums of rows, which later passes rewrite into selections.", needs="triton"),
        Step(UnrollLoopsPass, "Loops count upwards, and steps share the kernels of their products.", unless="cheap_iterations"),
        Step(FlattenIndicesPass, "Kernels accept a single index, and need it before it is clamped.", needs="vector_bytes"),
        Step(
            ScattersAsKernelsPass, "It recognises sums of rows, which later passes rewrite into selections.", needs="vector_bytes"
        ),
        Step(RunningAsKernelsPass, "It recognises running sums by their shifts, which later passes rewrite.", needs="vector_bytes"),
        Step(LegalizeFftPass, "Fourier transforms become products, and sines and cosines if they are long."),
        Step(LegalizeMathPass, "Formulas consist of conversions, selections and loops; no later pass creates a function."),
        Step(LegalizeSortsPass, "Sorts become loops, selections, conversions, and gathers that stay in range."),
        Step(LegalizeIndexingPass, "Scatters become reductions, pads, selections and conversions."),
        Step(LegalizeReductionsPass, "Windows become reductions, complex pads and selections, and conversions."),
        Step(LegalizeConvolutionsPass, "Convolutions become complex pads and conversions."),
        Step(ProductsInPartsPass, "Decompositions contain products; the parts are legal products.", unless="long_sums"),
        Step(LegalizeProductsPass, "Products become conversions, and operations on the two parts of complex numbers."),
        Step(
            LegalizeComplexPass,
            "The parts of complex numbers are real constants, selections and pads, which IREE computes rightly.",
        ),
        Step(LegalizeTypesPass, "Almost every earlier pass creates conversions; their rewritten forms contain none."),
        Step(ForgetFinalPass, "No later pattern could rewrite its own output again."),
        Step(FoldNumbersPass, "No later pass creates a formula, and the numbers in formulas have their final types."),
        Step(ChooseOnDevicePass, "Branches have their final size, and no later pass creates one."),
        Step(SeparateUsesPass, "All sums exist, so the pass sees which of them are read in two ways."),
        Step(SeparatePartsPass, "All slices exist, so the pass sees which of them a scatter or sort would include."),
        Step(SeparateConstantsPass, "All constants exist, so the pass sees which of them several operations update."),
        Step(ForgetUniqueIndicesPass, "No later pass creates a scatter.", unless="unique_indices"),
        Step(HoldLoopResultsPass, "No later pass creates a loop.", unless="loop_results"),
        Step(ReadCarriesPass, "No later pass creates a loop, or removes a carry from one."),
    )

    def __post_init__(self) -> None:
        require_target(self, self.target)


@register_pipeline
@dataclass(frozen=True)
class SchedulePipeline(NamedPipeline):
    """Rewrite operations that IREE 3.13 runs slowly on a CPU, and give products the tile shapes of a cost model.

    The numbers are the same up to the order of sums. A value that must be in memory, and not be fused, passes a compute
    barrier. IREE removes the barriers when it has formed dispatches.
    """

    name: ClassVar[str] = "nabla-schedule"
    vector_bytes: int = 64  # width of the CPU's vector registers
    steps: ClassVar[tuple[Step, ...]] = (
        Step(FuseSumsPass, "It reads sums over one space in their original form; later passes move them, and make them products."),
        Step(SplitDilatedConvolutionsPass, "Later passes expect convolutions without zeros between the elements."),
        Step(SplitConvolutionsPass, "With a wide window and few positions, one product for each position is fastest."),
        Step(GatherPatchesPass, "A remaining convolution of one axis or one channel is one product. It gets its tiles at the end."),
        Step(OrderAxesPass, "Transposes can move only while values are elementwise operations and products."),
        Step(PushUpSlicesPass, "The order of axes is final, so a value that only slices read need not be written whole."),
        Step(
            StacksAsChoicesPass, "The pass before moves slices through stacks. Kernels for loops accept selections, but no stacks."
        ),
        Step(FoldReshapesPass, "Earlier passes leave pairs of reshapes, which would end a kernel."),
        Step(
            LoopsAsKernelsPass, "It reads loops in their original form; a kernel contains no products with tiles, and no barriers."
        ),
        Step(SeparateBlocksPass, "Products of one matrix with several get an order of axes that kernels and tiles accept."),
        Step(RecomputePass, "It is known which values are in memory; products with tiles would hide elementwise operations."),
        Step(LimitMemoryPass, "It is known which values are in memory; values that are recomputed where they are read need none."),
        Step(SumsAsKernelsPass, "A value that is recomputed for a sum becomes part of the kernel of that sum."),
        Step(ScheduleSumsPass, "Sums that are no kernels become products, which may get tiles later."),
        Step(GatherRowsPass, "No other rewrite knows IREE's gather. The sums and products that become kernels are known."),
        Step(ScheduleProductsPass, "No other rewrite knows a product with tiles, so tiles come last."),
    )


@register_pipeline
@dataclass(frozen=True)
class OwnBuffersPipeline(NamedPipeline):
    """Update a buffer in place where nothing else reads it later, and copy it otherwise.

    No later pass may add another use of a value that is updated in place.
    """

    name: ClassVar[str] = "nabla-own-buffers"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    steps: ClassVar[tuple[Step, ...]] = (
        Step(LimitBuffersPass, "Fusions are final, and later passes must see the barriers of this one."),
        Step(WaitForLoopsPass, "It is known which loops are kernels and which run on the host; updates must see the barriers."),
        Step(UpdateInPlacePass, "It counts the uses of updated values, so all other rewrites must be done."),
        Step(
            SeparateUpdatesPass, "It looks for updates computed from their own target; a copy of the pass before is another target."
        ),
        Step(KeepArgumentsPass, "Each update has its own buffer, so the pass sees which arguments an update may reach."),
        Step(KeepSortedPass, "It only adds uses of results of sorts."),
        Step(PlaceResultsPass, "The returned values are final, so their memory can be chosen.", unless="memory_of_results"),
    )


@register_pipeline
@dataclass(frozen=True)
class IreePipeline(NamedPipeline):
    """Prepare plain StableHLO so that IREE compiles it to right and fast code. `compile()` runs this pipeline."""

    name: ClassVar[str] = "nabla-iree"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    vector_bytes: int = 0  # width of the CPU's vector registers; 0: no rewrites for speed
    triton: int = 0  # compute capability of the GPU for which Triton compiles kernels; 0: no such kernels
    steps: ClassVar[tuple[Step, ...]] = (
        Step("cse", "Equal operations are rewritten once."),
        Step(RollLoopsPass, "Equal values are computed once, so equal blocks look equal. Later passes see one of them."),
        Step(
            LegalizeForIreePipeline,
            "Code must be right before it is made fast; the formulas that it adds are scheduled like the rest.",
        ),
        Step(SchedulePipeline, "It needs all forms that legalisation leaves.", needs="vector_bytes"),
        Step(SumsInPartsPass, "Sums that became kernels or products need no parts.", unless="long_sums"),
        Step(SumUpdatesPass, "It creates sums, which the next pass splits.", unless="parallel_sums"),
        Step(GpuSumsAsKernelsPass, "All sums exist, those of updates too.", needs="triton"),
        Step(
            SplitSumsPass,
            "It splits sums for the threads of a GPU, as nabla-sums-in-parts does for one core of a CPU.",
            unless="parallel_sums",
        ),
        Step(
            "cse",
            "Legalisation leaves equal operations; a chain that reads each value once binds fewer buffers. On GPUs it costs waits.",
            needs="vector_bytes",
        ),
        Step(FuseChainsPass, "Chains have their final length, with the formulas of functions."),
        Step(ReuseTapesPass, "No later pass adds a read of a tape.", needs="vector_bytes"),
        Step(OwnBuffersPipeline, "It counts the uses of values, so it comes last."),
    )
