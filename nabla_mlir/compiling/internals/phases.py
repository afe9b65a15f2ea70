"""The steps of a compilation: the phases of IREE between which a module can be read and rewritten, and the flags of each step.

MLIR verifies the whole module after each pass. For a network of many layers this takes half of the first step and a
quarter of the last. So the steps of a long module run without the verifier, and its result is verified once, when the next
step reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nabla_mlir.base import thresholds
from nabla_mlir.targets.cpu import LOCAL

# The verifier would need the names of values in debug output, which nobody reads.
_NO_NAMES = "--mlir-print-assume-verified"
UNVERIFIED = "--verify=false"
# IREE's last phase before code: kernels are functions in executables, both IREE's and those of nabla_mlir.
_KERNELS = "executable-sources"
SEPARATE = "--iree-hal-link-executables=false"
# Makes machine code of one executable, without a module that calls it.
LIBRARY_ALONE = ("--compile-mode=hal-executable", UNVERIFIED)
# Flags that require a single library: C code calls it, the system's linker makes it, or the user requests it.
_ONE_LIBRARY = ("--iree-hal-link", "--iree-llvmcpu-link-embedded", "--iree-llvmcpu-link-static", "--iree-llvmcpu-static")
# Operations that IREE computes in place: it fills memory, and writes into it. If two wrongly share a buffer, only IREE's
# verifier detects it, before buffers are laid out. Example: two pads with one padding value of 64 bits.
_UPDATES = (
    b'"stablehlo.scatter"(',
    b"stablehlo.dynamic_update_slice ",
    b"stablehlo.pad ",
    b"stablehlo.concatenate ",
    b'"stablehlo.reduce_window"(',
    b'"stablehlo.sort"(',
)
LOOP = b"stablehlo.while"
BRANCHES = (LOOP, b"stablehlo.if", b"stablehlo.case")  # the operations that become blocks of the host program
# Operations on sliding windows: IREE's tiles of them may not fit together, which only its verifier detects.
_WINDOWS = (b"stablehlo.convolution", b"stablehlo.reduce_window", b"stablehlo.select_and_scatter")
BYTECODE = b"ML\xefR"  # the first bytes of a module in MLIR bytecode


def is_artifact(arguments: Sequence[str]) -> bool:
    """True if the compiler produces an artifact for the runtime with these flags, and not an intermediate form."""
    return not any(a.startswith(("--compile-to", "--compile-from", "--compile-mode", "--output-format")) for a in arguments)


def may_divide(arguments: Sequence[str]) -> bool:
    """True if the artifact may have several libraries with these flags."""
    return set(LOCAL) <= set(arguments) and not any(a.startswith(_ONE_LIBRARY) for a in arguments)


def steps(source: bytes, arguments: Sequence[str], in_steps: bool) -> list[tuple[str, ...]]:
    """The flags of each step of a compilation; one step without flags for a short module, two or three for a long one.

    Args:
      source: the module, as text or bytecode.
      arguments: the flags of the whole compilation.
      in_steps: True divides the compilation of a short module, too.
    """
    # In bytecode, neither lines nor operations can be counted.
    is_short = source.startswith(BYTECODE) or source.count(b"\n") < thresholds.VERIFIED_ONCE
    if not in_steps and (is_short or not is_artifact(arguments)):
        return [()]
    to_flow, to_kernels = _to("flow"), _to(_KERNELS)
    last: tuple[str, ...] = (f"--compile-from={_KERNELS}", _NO_NAMES)
    if set(LOCAL) <= set(arguments) and not is_short and not any(window in source for window in _WINDOWS):
        last = (*last, UNVERIFIED)
    if LOOP not in source and not any(update in source for update in _UPDATES):
        return [(*to_kernels, UNVERIFIED), last]
    return [(*to_flow, UNVERIFIED), ("--compile-from=flow", *to_kernels), last]


def _to(phase: str) -> tuple[str, ...]:
    """The flags for a step that ends after this phase, and writes the module as bytecode."""
    return (f"--compile-to={phase}", "--emit-mlir-bytecode", _NO_NAMES)
