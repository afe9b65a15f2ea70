"""Divergence, barriers, shuffles and votes of the PTX interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from gpu.ptx.parser import Unsupported
from gpu.ptx.support import each, run

LANE = np.arange(32, dtype=np.uint32)
STORE = "mad.lo.u64 %d10, %d0, 4, %d1; st.global.u32 [%d10], %r5;"


def test_loops_of_different_lengths() -> None:
    body = f"""
    mov.u32 %r1, 0; mov.u32 %r5, 0;
    LOOP:
    setp.ge.u32 %p1, %r1, %r0;
    @%p1 bra DONE;
    add.u32 %r1, %r1, 1;
    add.u32 %r5, %r5, %r1;
    bra LOOP;
    DONE:
    {STORE}"""
    (found,), counts = run(body, [np.zeros(64, np.uint32)], threads=64)
    np.testing.assert_array_equal(found, np.arange(64) * np.arange(1, 65) // 2)
    assert counts["bra"] == 32 + 64 + 31 + 63  # each warp as often as its last thread; the conditional one once more


def test_both_sides_of_a_condition_meet_behind_it() -> None:
    body = f"""
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p1, %r1, 0;
    @!%p1 bra ODD;
    mul.lo.u32 %r5, %r0, 10;
    bra.uni END;
    ODD: mul.lo.u32 %r5, %r0, 100;
    END: {STORE}"""
    (found,), counts = run(body, [np.zeros(32, np.uint32)])
    np.testing.assert_array_equal(found, np.where(LANE % 2, LANE * 100, LANE * 10))
    assert counts["st"] == 1


def test_predicates_guard_single_instructions() -> None:
    (found,), _ = run(f"setp.lt.u32 %p1, %r0, 5; mov.u32 %r5, 7; @%p1 mov.u32 %r5, %r0; {STORE}", [np.zeros(32, np.uint32)])
    np.testing.assert_array_equal(found, np.where(LANE < 5, LANE, 7))


def test_threads_that_have_ended_do_not_hold_up_a_barrier() -> None:
    body = f"""
    setp.ge.u32 %p1, %r0, 40;
    @%p1 ret;
    mov.u64 %d5, s; shl.b64 %d6, %d0, 2; add.u64 %d5, %d5, %d6;
    st.shared.u32 [%d5], %r0;
    bar.sync 0;
    sub.u32 %r1, 39, %r0; mul.wide.u32 %d6, %r1, 4; mov.u64 %d5, s; add.u64 %d5, %d5, %d6;
    ld.shared.u32 %r5, [%d5];
    {STORE}"""
    (found,), _ = run(body, [np.zeros(64, np.uint32)], threads=64, declared=".shared .align 4 .b8 s[256];")
    np.testing.assert_array_equal(found, [*range(39, -1, -1), *[0] * 24])


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_barrier_in_a_divergent_program(blocks: int) -> None:
    """Half of the warps take the long way to it: each reads what the others wrote before."""
    body = """
    mov.u64 %d5, s; shl.b64 %d6, %d0, 2; add.u64 %d7, %d5, %d6;
    and.b32 %r1, %r0, 32; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0;
    @%p1 bra SHORT;
    LONG: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50; @%p2 bra LONG;
    mov.u32 %r3, %ctaid.x; add.u32 %r4, %r0, %r3; st.shared.u32 [%d7], %r4; barrier.sync 0; bra NEXT;
    SHORT: mov.u32 %r3, %ctaid.x; add.u32 %r4, %r0, %r3; st.shared.u32 [%d7], %r4; barrier.sync 0;
    NEXT: xor.b32 %r4, %r0, 32; mul.wide.u32 %d6, %r4, 4; add.u64 %d6, %d5, %d6; ld.shared.u32 %r5, [%d6];
    mov.u32 %r6, %ntid.x; mad.lo.u32 %r6, %r3, %r6, %r0; mul.wide.u32 %d10, %r6, 4; add.u64 %d10, %d10, %d1; st.global.u32 [%d10], %r5;"""
    (found,), _ = run(body, [np.zeros(64 * blocks, np.uint32)], threads=64, grid=blocks, declared=".shared .align 4 .b8 s[256];")
    np.testing.assert_array_equal(found, np.concatenate([(np.arange(64) ^ 32) + block for block in range(blocks)]))


def test_a_barrier_that_nobody_completes() -> None:
    body = "setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64; @%p1 ret; bar.sync 2, 64;"
    with pytest.raises(RuntimeError, match="all threads wait at barriers"):
        run(body, [np.zeros(1, np.uint32)], threads=64)


@pytest.mark.parametrize(
    ("mode", "n", "clamp", "source"),
    [
        ("bfly", 5, 31, LANE ^ 5),
        ("down", 3, 31, np.where(LANE + 3 < 32, LANE + 3, LANE)),
        ("up", 3, 0, np.where(LANE >= 3, LANE - 3, LANE)),
        ("idx", 9, 31, np.full(32, 9)),
        ("bfly", 9, 31 | 24 << 8, np.where(LANE & 8, LANE ^ 9, LANE)),
        ("down", 1, 31 | 24 << 8, np.where(LANE % 8 < 7, LANE + 1, LANE)),
        ("idx", 3, 31 | 24 << 8, LANE // 8 * 8 + 3),
    ],
)
def test_shuffles(mode: str, n: int, clamp: int, source: np.ndarray) -> None:
    """The upper byte of the clamp divides the warp; bfly may read a lane of a lower part, but none of a higher."""
    x = np.random.default_rng(0).integers(0, 2**32, 32, np.uint64).astype(np.uint32)
    found = each(f"shfl.sync.{mode}.b32 {{}}, {{0}}, {n}, {clamp}, -1", "b32", ("b32", x))
    np.testing.assert_array_equal(found, x[source])
    found = each(f"shfl.sync.{mode}.b32 %r1|{{}}, {{0}}, {n}, {clamp}, -1", "pred", ("b32", x))
    if mode in ("up", "down") and not clamp >> 8:
        np.testing.assert_array_equal(found, source != LANE)


def test_votes() -> None:
    (found,), _ = run(f"setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r5, %p1, -1; {STORE}", [np.zeros(32, np.uint32)])
    assert found[0] == 31
    (found,), _ = run(
        f"setp.lt.u32 %p1, %r0, 33; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r5, 1, 0, %p2; {STORE}",
        [np.zeros(64, np.uint32)],
        threads=64,
    )
    np.testing.assert_array_equal(found, [1] * 32 + [0] * 32)
    (found,), _ = run(f"setp.lt.u32 %p1, %r0, 4; mov.u32 %r5, 0; @%p1 activemask.b32 %r5; {STORE}", [np.zeros(32, np.uint32)])
    np.testing.assert_array_equal(found, np.where(LANE < 4, 15, 0))


def test_a_matrix_instruction_of_half_a_warp() -> None:
    body = "mov.u64 %d5, s; setp.lt.u32 %p1, %r0, 16; @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%d5];"
    with pytest.raises(Unsupported, match="some of its threads"):
        run(body, [np.zeros(1, np.uint32)], declared=".shared .align 16 .b8 s[256];")


def test_a_barrier_of_the_grid() -> None:
    """Blocks add to a counter and wait until all have: the interpreter runs them together."""
    body = """
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r0, 0; mov.u32 %r7, 0;
    SLOW: add.u32 %r7, %r7, 1; setp.le.u32 %p4, %r7, %r1; @%p4 bra SLOW;
    mul.wide.u32 %d5, %r1, 4; add.u64 %d6, %d1, %d5; add.u32 %r2, %r1, 100; @!%p1 st.global.u32 [%d6], %r2;
    @%p1 bra WAIT;
    atom.global.add.release.gpu.u32 %r3, [%d2], 1;
    SPIN: ld.acquire.gpu.global.u32 %r4, [%d2]; setp.lt.u32 %p2, %r4, 8; @%p2 bra SPIN;
    WAIT: bar.sync 0;
    sub.u32 %r2, 7, %r1; mul.wide.u32 %d5, %r2, 4; add.u64 %d5, %d1, %d5; ld.global.u32 %r5, [%d5]; mul.wide.u32 %d7, %r1, 4; add.u64 %d7, %d3, %d7;
    @!%p1 st.global.u32 [%d7], %r5;"""
    (_, counter, found), _ = run(body, [np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.zeros(8, np.uint32)], threads=64, grid=8)
    assert counter[0] == 8
    np.testing.assert_array_equal(found, 107 - np.arange(8))
