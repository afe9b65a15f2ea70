"""The passes on the way to IREE, in their order, and why each of them stands where it does."""

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


@register_pipeline
@dataclass(frozen=True)
class LegalizeForIreePipeline(NamedPipeline):
    """Replace what IREE 3.13 computes wrongly, inexactly or not at all by what it does right.

    Each pass makes only what later ones, or itself, still look at, so that one run of each is enough:
    tests/passes/test_iree_pipeline.py holds that for samples of every operation.
    """

    name: ClassVar[str] = "nabla-legalize-for-iree"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    vector_bytes: int = 0  # width of a CPU's vector registers, for which large factorisations are kernels; 0: products
    steps: ClassVar[tuple[Step, ...]] = (
        Step(VerifySupportedPass, "What no pass can help with is refused first, at the line of the user's."),
        Step(OneDevicePass, "Collective operations become nothing, or a constant: less to look at."),
        Step(ForgetEmptyPass, "What has no elements need not be made right."),
        Step(CountLoopsPass, "It makes conversions of counters, rewritten below; loops that are made below count upwards."),
        Step(LegalizeLinalgPass, "Decompositions are made of everything that follows: roots, products, gathers, sorts."),
        Step(FlattenIndicesPass, "A kernel takes one index as well as several, and one that is not clamped.", needs="vector_bytes"),
        Step(ScattersAsKernelsPass, "Sums of rows, before they are made of choices.", needs="vector_bytes"),
        Step(RunningAsKernelsPass, "Running sums, before anything is done to their shifts.", needs="vector_bytes"),
        Step(LegalizeFftPass, "Transforms are made of products, and of sines and cosines if they are long."),
        Step(LegalizeMathPass, "Formulas are made of conversions, choices and loops, and no pass below makes a function."),
        Step(LegalizeSortsPass, "Sorts are made of loops, choices, conversions, and of gathers that stay in range."),
        Step(LegalizeIndexingPass, "Scatters are made of reductions, pads, choices and conversions."),
        Step(LegalizeReductionsPass, "Windows are made of reductions, complex pads and choices, and conversions."),
        Step(LegalizeConvolutionsPass, "Convolutions are made of complex pads and of conversions."),
        Step(LegalizeProductsPass, "Products are made of conversions, and of the two parts of complex numbers."),
        Step(LegalizeComplexPass, "The parts of complex numbers are real constants, choices and pads, which are right."),
        Step(LegalizeTypesPass, "Conversions come from almost every pass above; what they are made of needs none."),
        Step(ForgetFinalPass, "No pattern is left that must not look again at what it made."),
        Step(FoldNumbersPass, "No formula is made any more, and the numbers in them have the types that they keep."),
        Step(ChooseOnDevicePass, "Branches are as small as they get, and none is made any more."),
        Step(SeparateUsesPass, "Which sums are read in two ways is only known once all of them are there."),
        Step(SeparatePartsPass, "Likewise for slices that scatters and sorts would take with them."),
        Step(SeparateConstantsPass, "Likewise for constants that several operations update."),
        Step(ForgetUniqueIndicesPass, "The last scatter has been made.", unless="unique_indices"),
        Step(HoldLoopResultsPass, "The last loop has been made.", unless="loop_results"),
        Step(ReadCarriesPass, "Likewise, and nothing takes carries out of loops any more."),
    )  # fmt: skip

    def __post_init__(self) -> None:
        require_target(self, self.target)


@register_pipeline
@dataclass(frozen=True)
class SchedulePipeline(NamedPipeline):
    """Rewrite what IREE 3.13 does slowly on a CPU, and give products the tile shapes of a cost model.

    The numbers are the same up to the order of sums. What is to be in memory and not fused stands behind a compute
    barrier, which is gone once there are dispatches.
    """

    name: ClassVar[str] = "nabla-schedule"
    vector_bytes: int = 64  # width of the CPU's vector registers
    steps: ClassVar[tuple[Step, ...]] = (
        Step(FuseSumsPass, "Sums are read as they are, over one space: below they are moved, and become products."),
        Step(SplitDilatedConvolutionsPass, "Convolutions without zeros in between are what is looked at below."),
        Step(SplitConvolutionsPass, "Of what has a wide window and few positions the product for each is best."),
        Step(GatherPatchesPass, "What is left of one axis or one channel is one product; tiles come at the end."),
        Step(OrderAxesPass, "Transposes move while values are still elementwise operations and products."),
        Step(PushUpSlicesPass, "With the axes in place, what only slices read need not be written whole."),
        Step(StacksAsChoicesPass, "Slices look through stacks, and kernels for loops know choices, not stacks."),
        Step(FoldReshapesPass, "The passes above leave pairs of reshapes, at which kernels would stop."),
        Step(LoopsAsKernelsPass, "A loop is read as it is: products with tiles, and barriers, are no part of a kernel."),
        Step(SeparateBlocksPass, "Products of one matrix with several: in an order of axes that kernels and tiles take."),
        Step(RecomputePass, "What is in memory is known: products with tiles would only hide what is elementwise."),
        Step(LimitMemoryPass, "Likewise; what is made again where it is read takes no memory here."),
        Step(SumsAsKernelsPass, "What is made again where a sum reads it is part of the kernel of that sum."),
        Step(ScheduleSumsPass, "What is no kernel: sums become products, which may get tiles below."),
        Step(GatherRowsPass, "No rewrite knows IREE's gather, and which sums and products are kernels is known."),
        Step(ScheduleProductsPass, "No rewrite knows a product with tiles: they are given last."),
    )  # fmt: skip


@register_pipeline
@dataclass(frozen=True)
class OwnBuffersPipeline(NamedPipeline):
    """Write into buffers where nothing else needs them any more, and nowhere else.

    From here on no pass may make another use of a value that is updated in place.
    """

    name: ClassVar[str] = "nabla-own-buffers"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    steps: ClassVar[tuple[Step, ...]] = (
        Step(LimitBuffersPass, "What is fused is known, and its barriers are seen by the passes below."),
        Step(WaitForLoopsPass, "Which loops are kernels, not the host's, is known; updates are to see the barriers."),
        Step(UpdateInPlacePass, "It counts the uses of what is updated, so that all other rewrites come before."),
        Step(SeparateUpdatesPass, "An update computed from its own target: the copies made above are other targets."),
        Step(KeepArgumentsPass, "Which arguments an update may reach is known once each has its own buffer."),
        Step(KeepSortedPass, "Adds uses and nothing else, of sorts on the stack.", unless="sorted_operands"),
        Step(PlaceResultsPass, "Memory is chosen for the values that are returned in the end.", unless="memory_of_results"),
    )


@register_pipeline
@dataclass(frozen=True)
class IreePipeline(NamedPipeline):
    """From plain StableHLO to what IREE compiles to right and fast code: what `compile()` runs."""

    name: ClassVar[str] = "nabla-iree"
    target: str = "cpu"  # kind of device that the module is compiled for: cpu, vulkan or cuda
    vector_bytes: int = 0  # width of a CPU's vector registers; 0: nothing is rewritten for speed
    steps: ClassVar[tuple[Step, ...]] = (
        Step("cse", "Equal operations are rewritten once."),
        Step(LegalizeForIreePipeline, "What is fast must be right first; its formulas are scheduled like the rest."),
        Step(SchedulePipeline, "Needs the forms that legalisation leaves, and all of them.", needs="vector_bytes"),
        Step(SumsInPartsPass, "Kernels and products are sums that need no parts.", unless="long_sums"),
        Step(SumUpdatesPass, "Makes sums, which the next pass splits.", unless="parallel_sums"),
        Step(SplitSumsPass, "For the threads of a GPU, as the pass before the last for one core.", unless="parallel_sums"),
        Step(FuseChainsPass, "Chains are as long as they get: the formulas of functions are part of them."),
        Step(ReuseTapesPass, "Nothing reads tapes anew from here on.", needs="vector_bytes"),
        Step(OwnBuffersPipeline, "Counts the uses of values, and so comes last."),
    )  # fmt: skip
