"""The instructions by name, each with the words that may follow it."""

from __future__ import annotations

from collections.abc import Callable

from gpu.ptx import arithmetic, bits, control, conversions, tensor_cores, transfers
from gpu.ptx.numbers import BITS, Array
from gpu.ptx.parser import Instruction
from gpu.ptx.threads import Threads

Handler = Callable[[Threads, Instruction, "Array | None"], None]

_ROUNDING = "rn rna rz rni rzi rmi rpi"
_FLOAT = f"{_ROUNDING} approx full ftz sat"
_SCOPES = "relaxed acquire release acq_rel sc weak volatile gpu cta sys cluster"
_CACHES = "ca cg cs cv lu wb wt nc L1::evict_last L1::evict_first L1::no_allocate L1::evict_unchanged L2::cache_hint L2::128B L2::64B L2::256B"
_SPACES = "param global shared local const shared::cta param::entry v2 v4 v8"
_COMPARISONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu nan num"

# The function of each instruction, and the words after its name, beside types, that the function takes into account, or that
# change neither numbers nor counts here.
HANDLERS: dict[str, tuple[Handler, frozenset[str]]] = {}


def _add(names: str, handler: Handler, words: str = "") -> None:
    for name in names.split():
        HANDLERS[name] = handler, frozenset(words.split())


_add(
    "add sub and or xor not neg abs min max div rem sqrt rsqrt rcp ex2 lg2 sin cos tanh copysign",
    arithmetic.elementwise,
    f"{_FLOAT} NaN",
)
_add("mul", arithmetic.mul, f"{_FLOAT} lo hi wide")
_add("mad", arithmetic.mad, f"{_FLOAT} lo wide")
_add("fma", arithmetic.fma, _FLOAT)
_add("shl shr", bits.shift)
_add("shf", bits.funnel_shift, "l r wrap clamp")
_add("bfe", bits.extract)
_add("bfi", bits.insert)
_add("prmt", bits.permute)
_add("lop3", bits.lookup)
_add("popc clz brev bfind", bits.count)
_add("mov", conversions.mov)
_add("cvt", conversions.cvt, f"{_ROUNDING} ftz sat")
_add("cvta", conversions.cvta, f"to {_SPACES}")
_add("setp", conversions.setp, f"{_COMPARISONS} and or xor ftz")
_add("selp", conversions.selp)
_add("ld ldu", transfers.ld, f"{_SPACES} {_CACHES} {_SCOPES}")
_add("st", transfers.st, f"{_SPACES} {_CACHES} {_SCOPES}")
_add("atom red", transfers.atom, f"{_SPACES} {_CACHES} {_SCOPES} add min max exch cas and or xor noftz")
_add("cp", transfers.cp_async, f"async {_SPACES} {_CACHES} commit_group wait_group wait_all")
_add("bar barrier", control.barrier, "sync cta aligned warp arrive")
_add("fence membar", control.nothing, f"{_SCOPES} gl proxy async {_SPACES}")
_add(
    "nanosleep prefetch createpolicy discard pragma setmaxnreg griddepcontrol",
    control.nothing,
    f"{_CACHES} {_SPACES} L1 L2 fractional L2::evict_first L2::evict_last range sync aligned inc dec wait launch_dependents",
)
_add("bra", control.branch, "uni")
_add("ret exit", control.end, "uni")
_add("shfl", control.shuffle, "sync bfly up down idx")
_add("vote", control.vote, "sync ballot all any")
_add("activemask", control.active_mask)
_add("ldmatrix", tensor_cores.ldmatrix, f"sync aligned m8n8 x1 x2 x4 trans {_SPACES}")
_add("stmatrix", tensor_cores.stmatrix, f"sync aligned m8n8 x1 x2 x4 trans {_SPACES}")
_add("mma", tensor_cores.mma, "sync aligned row col m16n8k4 m16n8k8 m16n8k16 m8n8k4")
_add(
    "wgmma",
    tensor_cores.wgmma,
    "mma_async fence commit_group wait_group sync aligned " + " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16)),
)


def execute(t: Threads, instruction: Instruction, mask: Array | None) -> None:
    """Executes an instruction in the threads of the mask.

    Raises:
      Unsupported: the interpreter does not have it.
    """
    if instruction.name not in HANDLERS:
        raise instruction.unsupported()
    handler, words = HANDLERS[instruction.name]
    if any(word not in words and word not in BITS for word in instruction.words):
        raise instruction.unsupported()
    handler(t, instruction, mask)
