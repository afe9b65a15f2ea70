"""Memory of the PTX interpreter: spaces, counters, asynchronous copies, atomic operations."""

from __future__ import annotations

import numpy as np
import pytest

from gpu.ptx.parser import Unsupported, parse
from gpu.ptx.support import module, run

RNG = np.random.default_rng(3)
SHARED = ".shared .align 16 .b8 s[8192];"


def test_vectors() -> None:
    x = RNG.standard_normal(128).astype(np.float32)
    body = """shl.b64 %d5, %d0, 4; add.u64 %d6, %d1, %d5; add.u64 %d7, %d2, %d5;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d6]; st.global.v2.f32 [%d7], {%f4, %f3}; st.global.v2.f32 [%d7+8], {%f2, %f1};"""
    (_, found), counts = run(body, [x, np.zeros_like(x)])
    np.testing.assert_array_equal(found.reshape(-1, 4), x.reshape(-1, 4)[:, ::-1])
    assert counts["global.ld.sectors"] == 512 // 32
    assert counts["global.ld.bytes"] == 512


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (32, 32), (128, 32), (0, 1)])
def test_sectors(stride: int, sectors: int) -> None:
    _, counts = run(f"mad.lo.u64 %d5, %d0, {stride}, %d1; ld.global.f32 %f1, [%d5];", [np.zeros(2048, np.float32)])
    assert counts["global.ld.sectors"] == sectors


@pytest.mark.parametrize(
    ("stride", "size", "wavefronts", "ideal"),
    [
        (4, 4, 1, 1),
        (8, 4, 2, 1),
        (128, 4, 32, 1),
        (132, 4, 1, 1),
        (0, 4, 1, 1),
        (8, 8, 2, 2),
        (16, 16, 4, 4),
        (128, 16, 32, 4),
        (144, 16, 4, 4),
        (2, 2, 1, 1),
    ],
)
def test_bank_conflicts(stride: int, size: int, wavefronts: int, ideal: int) -> None:
    what = {2: "u16 %h1", 4: "f32 %f1", 8: "v2.f32 {%f1, %f2}", 16: "v4.f32 {%f1, %f2, %f3, %f4}"}[size]
    _, counts = run(f"mov.u64 %d5, s; mad.lo.u64 %d5, %d0, {stride}, %d5; ld.shared.{what}, [%d5];", [np.zeros(1)], declared=SHARED)
    assert (counts["shared.ld.wavefronts"], counts["shared.ld.ideal"]) == (wavefronts, ideal)


def test_shared_memory_belongs_to_the_block() -> None:
    body = """mov.u32 %r1, %ctaid.x; mov.u64 %d5, s; st.shared.u32 [%d5], %r1; bar.sync 0; ld.shared.u32 %r2, [%d5];
    mul.wide.u32 %d6, %r1, 4; add.u64 %d6, %d1, %d6; st.global.u32 [%d6], %r2;"""
    (found,), _ = run(body, [np.zeros(6, np.uint32)], grid=6, declared=SHARED)
    np.testing.assert_array_equal(found, np.arange(6))


def test_generic_addresses_name_shared_and_local_memory() -> None:
    body = """.local .align 8 .b8 own[64]; mov.u64 %d5, own; cvta.local.u64 %d5, %d5; st.u32 [%d5+4], %r0; ld.local.u32 %r1, [%d5+4];
    mov.u64 %d6, s; shl.b64 %d7, %d0, 2; add.u64 %d6, %d6, %d7; st.u32 [%d6], %r1; ld.shared.u32 %r2, [%d6];
    add.u64 %d7, %d1, %d7; st.u32 [%d7], %r2;"""
    (found,), counts = run(body, [np.zeros(32, np.uint32)], declared=SHARED)
    np.testing.assert_array_equal(found, np.arange(32))
    assert counts["local.st.bytes"] == 128


def test_dynamic_shared_memory_and_constants() -> None:
    declared = ".extern .shared .align 16 .b8 dyn[];\n.const .align 4 .b32 table[4] = {3, 1, 4, 0xFFFFFFFF};"
    body = """and.b32 %r1, %r0, 3; mul.wide.u32 %d5, %r1, 4; mov.u64 %d6, table; add.u64 %d6, %d6, %d5; ld.const.u32 %r2, [%d6];
    mov.u64 %d7, dyn; shl.b64 %d8, %d0, 2; add.u64 %d7, %d7, %d8; st.shared.u32 [%d7], %r2; ld.shared.u32 %r3, [%d7];
    add.u64 %d8, %d1, %d8; st.global.u32 [%d8], %r3;"""
    (found,), _ = run(body, [np.zeros(32, np.uint32)], declared=declared, dynamic=128)
    np.testing.assert_array_equal(found, np.tile([3, 1, 4, 2**32 - 1], 8))
    with pytest.raises(IndexError, match="shared st outside of memory"):
        run(body, [np.zeros(32, np.uint32)], declared=declared, dynamic=64)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("ld.global.u32 %r1, [%d1+2];", "global ld at an address that is no multiple of 4"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1+8];", "no multiple of 16"),
        ("add.u64 %d5, %d1, 2000000; ld.global.u32 %r1, [%d5];", "global ld outside of memory"),
        ("mov.u64 %d5, s; st.shared.u32 [%d5+8192], %r0;", "shared st outside of memory"),
    ],
)
def test_wrong_addresses(body: str, text: str) -> None:
    with pytest.raises(IndexError, match=text):
        run(body, [np.zeros(32, np.uint32)], declared=SHARED)


COPY = "mov.u64 %d5, s; shl.b64 %d6, %d0, 4; add.u64 %d7, %d5, %d6; add.u64 %d8, %d1, %d6;"
READ = (
    "ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d7{at}]; add.u64 %d9, %d2, %d6; st.global.v4.u32 [%d9{at}], {{%r1, %r2, %r3, %r4}};"
)


def test_asynchronous_copies_arrive_when_they_are_waited_for() -> None:
    x, zeros = RNG.integers(0, 2**31, 256).astype(np.uint32), np.zeros(256, np.uint32)
    two = f"{COPY} cp.async.cg.shared.global [%d7], [%d8], 16; cp.async.commit_group; cp.async.ca.shared.global [%d7+512], [%d8+512], 16; cp.async.commit_group;"
    unwritten = np.full(128, 0xCDCDCDCD, np.uint32)
    for count, expected in ((2, [unwritten, unwritten]), (1, [x[:128], unwritten]), (0, [x[:128], x[128:]])):
        body = f"{two} cp.async.wait_group {count}; bar.sync 0; {READ.format(at='')} {READ.format(at='+512')}"
        (_, found), _ = run(body, [x, zeros], declared=SHARED)
        np.testing.assert_array_equal(found, np.concatenate(expected))
    body = f"{two} cp.async.wait_all; bar.sync 0; {READ.format(at='')} {READ.format(at='+512')}"
    np.testing.assert_array_equal(run(body, [x, zeros], declared=SHARED)[0][1], x)


def test_groups_of_copies_belong_to_a_thread() -> None:
    """Threads above 15 close a group less: waiting for all but one leaves theirs under way."""
    x, zeros = RNG.integers(0, 2**31, 128).astype(np.uint32), np.zeros(128, np.uint32)
    body = f"{COPY} cp.async.cg.shared.global [%d7], [%d8], 16; cp.async.commit_group; setp.lt.u32 %p1, %r0, 16; @%p1 cp.async.commit_group; cp.async.wait_group 1; {READ.format(at='')}"
    (_, found), _ = run(body, [x, zeros], declared=SHARED)
    np.testing.assert_array_equal(found, np.where(np.arange(128) < 64, x, np.uint32(0xCDCDCDCD)))


def test_a_copy_of_no_bytes_writes_zeros() -> None:
    x, zeros = RNG.integers(1, 2**31, 128).astype(np.uint32), np.zeros(128, np.uint32)
    body = f"{COPY} setp.lt.u32 %p1, %r0, 7; selp.u32 %r9, 16, 0, %p1; cp.async.cg.shared.global [%d7], [%d8], 16, %r9; cp.async.commit_group; cp.async.wait_group 0; {READ.format(at='')}"
    (_, found), _ = run(body, [x, zeros], declared=SHARED)
    np.testing.assert_array_equal(found, np.where(np.arange(128) < 28, x, 0))


@pytest.mark.parametrize("text", ["cp.async.bulk.tensor.2d.shared.global [%d5], [%d1], [%d2]", "mbarrier.init.shared.b64 [%d5], 1"])
def test_bulk_copies_are_named(text: str) -> None:
    with pytest.raises(Unsupported, match=text.split()[0]):
        run(f"{COPY} {text};", [np.zeros(4)] * 2, declared=SHARED)


@pytest.mark.parametrize(
    ("name", "kind", "f"),
    [
        ("add", "u32", np.sum),
        ("add", "f32", np.sum),
        ("max", "s32", np.max),
        ("min", "u32", np.min),
        ("or", "b32", np.bitwise_or.reduce),
        ("xor", "b32", np.bitwise_xor.reduce),
        ("add", "f64", np.sum),
        ("and", "b32", np.bitwise_and.reduce),
    ],
)
@pytest.mark.parametrize("instruction", ["atom", "red"])
def test_atomic_operations(name: str, kind: str, f: object, instruction: str) -> None:
    dtype = {"u32": np.uint32, "b32": np.uint32, "s32": np.int32, "f32": np.float32, "f64": np.float64}[kind]
    x = RNG.integers(0, 1000, 64).astype(dtype)
    size, register = x.dtype.itemsize, {"u32": "%r1", "b32": "%r1", "s32": "%r1", "f32": "%f1", "f64": "%g1"}[kind]
    result = f"{register.replace('1', '2')}, " if instruction == "atom" else ""
    body = f"""mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r5, %r5, %r6, %r0; mul.wide.u32 %d5, %r5, {size}; add.u64 %d5, %d1, %d5;
    ld.global.{kind} {register}, [%d5]; {instruction}.global.{name}.{kind} {result}[%d2], {register};"""
    start = x[:1].copy()
    (_, found), _ = run(body, [x, start], grid=2)
    assert found[0] == f(np.concatenate([start, x]))  # type: ignore[operator]


def test_exchange_and_compare() -> None:
    body = """atom.global.exch.b32 %r1, [%d1], %r0; atom.global.cas.b32 %r2, [%d1+4], %r0, 5; shl.b64 %d5, %d0, 2; add.u64 %d5, %d2, %d5; st.global.u32 [%d5], %r1;"""
    (cells, before), _ = run(body, [np.array([77, 3], np.uint32), np.zeros(32, np.uint32)])
    assert cells.tolist() == [31, 5]
    assert before.tolist() == [77, *range(31)]


def test_pairs_of_halves_have_no_atomic_addition() -> None:
    with pytest.raises(Unsupported, match=r"red\.global\.add\.noftz\.f16x2"):
        run("red.global.add.noftz.f16x2 [%d1], %r0;", [np.zeros(4, np.uint32)])


def test_what_a_module_cannot_have_is_named() -> None:
    with pytest.raises(Unsupported, match="parameter"):
        parse(".entry k(.param .align 8 .b8 p[16]) { ret; }")
    with pytest.raises(Unsupported, match="two sizes"):
        parse(".entry k() { .reg .b32 x; .reg .b64 x; ret; }")
    with pytest.raises(Unsupported, match="name: %nothing"):
        run("mov.u32 %r1, %nothing;", [np.zeros(1)])


def test_the_parts_of_a_module() -> None:
    kernels = parse(
        module("ret;", 2, SHARED) + "\n.entry other(.param .f32 x) .reqntid 64, 2 { // a comment\n @!%p bra L; L: ret; }"
    )
    assert kernels["k"].parameters == [("u64", "p0"), ("u64", "p1")]
    assert kernels["other"].threads == (64, 2)
    assert [(i.name, i.predicate, i.is_negated) for i in kernels["other"].instructions] == [
        ("bra", "%p", True),
        ("ret", None, False),
    ]
    assert kernels["other"].labels == {"L": 1}
