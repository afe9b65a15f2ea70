"""Matrix instructions of the PTX interpreter against NumPy, with the layouts of the PTX ISA written out per element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gpu.ptx.parser import Unsupported
from gpu.ptx.support import run

RNG = np.random.default_rng(4)
SHARED = ".shared .align 1024 .b8 s[32768];"
HALVES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


def packed(matrix: np.ndarray, kind: str) -> np.ndarray:
    """Words of neighbours along the last axis of a matrix of halves; or tf32, one number a word."""
    return np.ascontiguousarray(matrix).astype(HALVES.get(kind, np.float32)).view(np.uint32)


def loads(prefix: str, count: int, base: str, first: int) -> str:
    """Loads `count` words of each thread, stored as [count, threads], into registers."""
    lines = [f"shl.b64 %d20, %d0, 2; add.u64 %d20, {base}, %d20;"]
    return " ".join(lines + [f"ld.global.b32 %{prefix}{first + i}, [%d20+{128 * i}];" for i in range(count)])


def stores(prefix: str, count: int, base: str, first: int, threads: int = 32) -> str:
    lines = [f"shl.b64 %d20, %d0, 2; add.u64 %d20, {base}, %d20;"]
    return " ".join(lines + [f"st.global.b32 [%d20+{4 * threads * i}], %{prefix}{first + i};" for i in range(count)])


def rounded(matrix: np.ndarray, kind: str) -> np.ndarray:
    if kind in HALVES:
        return matrix.astype(HALVES[kind]).astype(np.float64)
    return (matrix.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@pytest.mark.parametrize(("kind", "k"), [("bf16", 16), ("bf16", 8), ("f16", 16), ("f16", 8), ("tf32", 8), ("tf32", 4)])
def test_mma_sync(kind: str, k: int) -> None:
    a, b, c = RNG.standard_normal((16, k)), RNG.standard_normal((k, 8)), RNG.standard_normal((16, 8)).astype(np.float32)
    per = 1 if kind == "tf32" else 2
    a_words, b_words = packed(a, kind), packed(b.T, kind)  # [16, k / per], [8, k / per]
    lane = np.arange(32)
    g, q = lane // 4, lane % 4
    # Even registers of a hold words of row g, odd ones of row g + 8; each next pair is four words further right.
    a_given = np.stack([a_words[g + 8 * (i % 2), q + 4 * (i // 2)] for i in range(2 * (k // per // 4))])
    b_given = np.stack([b_words[g, q + 4 * i] for i in range(k // per // 4)])
    c_given = np.stack([c[g + 8 * (i // 2), 2 * q + i % 2] for i in range(4)])
    na, nb = len(a_given), len(b_given)
    body = f"""{loads("r", na, "%d1", 10)} {loads("r", nb, "%d2", 20)} {loads("f", 4, "%d3", 0)}
    mma.sync.aligned.m16n8k{k}.row.col.f32.{kind}.{kind}.f32 {{%f10, %f11, %f12, %f13}}, {{{", ".join(f"%r{10 + i}" for i in range(na))}}},
      {{{", ".join(f"%r{20 + i}" for i in range(nb))}}}, {{%f0, %f1, %f2, %f3}};
    {stores("f", 4, "%d4", 10)}"""
    (*_, found), counts = run(body, [a_given, b_given, c_given, np.zeros((4, 32), np.float32)])
    expected = (rounded(a, kind) @ rounded(b, kind) + c).astype(np.float32)
    np.testing.assert_array_max_ulp(found, np.stack([expected[g + 8 * (i // 2), 2 * q + i % 2] for i in range(4)]), 1)
    assert counts["mma.flop"] == 2 * 16 * 8 * k


def test_mma_sync_with_sums_of_f16() -> None:
    a, b, c = (RNG.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8), (16, 8)))
    lane = np.arange(32)
    g, q = lane // 4, lane % 4
    a_words, b_words, c_words = packed(a, "f16"), packed(b.T, "f16"), packed(c, "f16")
    a_given = np.stack([a_words[g + 8 * (i % 2), q + 4 * (i // 2)] for i in range(4)])
    b_given = np.stack([b_words[g, q + 4 * i] for i in range(2)])
    c_given = np.stack([c_words[g + 8 * i, q] for i in range(2)])
    body = f"""{loads("r", 4, "%d1", 10)} {loads("r", 2, "%d2", 20)} {loads("r", 2, "%d3", 30)}
    mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{%r40, %r41}}, {{%r10, %r11, %r12, %r13}}, {{%r20, %r21}}, {{%r30, %r31}};
    {stores("r", 2, "%d4", 40)}"""
    (*_, found), _ = run(body, [a_given, b_given, c_given, np.zeros((2, 32), np.uint32)])
    expected = packed(a.astype(np.float64) @ b.astype(np.float64) + c, "f16")
    np.testing.assert_allclose(
        found.view(np.float16).astype(float),
        np.stack([expected[g + 8 * i, q] for i in range(2)]).view(np.float16).astype(float),
        rtol=2e-3,
    )


def test_mma_sync_of_f64() -> None:
    a, b, c = RNG.standard_normal((8, 4)), RNG.standard_normal((4, 8)), RNG.standard_normal((8, 8))
    lane = np.arange(32)
    g, q = lane // 4, lane % 4
    body = """shl.b64 %d20, %d0, 3; add.u64 %d21, %d1, %d20; add.u64 %d22, %d2, %d20; shl.b64 %d23, %d0, 4; add.u64 %d24, %d3, %d23; add.u64 %d25, %d4, %d23;
    ld.global.f64 %g1, [%d21]; ld.global.f64 %g2, [%d22]; ld.global.v2.f64 {%g3, %g4}, [%d24];
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g5, %g6}, {%g1}, {%g2}, {%g3, %g4}; st.global.v2.f64 [%d25], {%g5, %g6};"""
    (*_, found), _ = run(body, [a[g, q], b[q, g], np.stack([c[g, 2 * q], c[g, 2 * q + 1]], 1), np.zeros((32, 2))])
    expected = a @ b + c
    np.testing.assert_allclose(found, np.stack([expected[g, 2 * q], expected[g, 2 * q + 1]], 1), rtol=1e-14)


def test_infinity_and_nan_in_mma() -> None:
    a = np.zeros((16, 8), np.float32)
    a[0, 0], a[1, 0], a[2, 1] = np.inf, np.nan, 1
    lane = np.arange(32)
    g, q = lane // 4, lane % 4
    a_given = np.stack([a.view(np.uint32)[g + 8 * (i % 2), q + 4 * (i // 2)] for i in range(4)])
    b_given = np.ones((2, 32), np.float32).view(np.uint32)
    body = f"""{loads("r", 4, "%d1", 10)} {loads("r", 2, "%d2", 20)} mov.f32 %f0, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f10, %f11, %f12, %f13}}, {{%r10, %r11, %r12, %r13}}, {{%r20, %r21}}, {{%f0, %f0, %f0, %f0}};
    {stores("f", 4, "%d3", 10)}"""
    (*_, found), _ = run(body, [a_given, b_given, np.zeros((4, 32), np.float32)])
    np.testing.assert_array_equal(found[0].reshape(8, 4)[:4, 0], [np.inf, np.nan, 1, 0])


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix(trans: str) -> None:
    matrices = RNG.integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    body = f"""mov.u64 %d5, s; shl.b64 %d6, %d0, 4; add.u64 %d7, %d5, %d6; add.u64 %d8, %d1, %d6;
    ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d8]; st.shared.v4.b32 [%d7], {{%r1, %r2, %r3, %r4}}; bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%d7];
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%d7+512], {{%r10, %r11, %r12, %r13}}; ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d7+512];
    add.u64 %d8, %d3, %d6; st.global.v4.b32 [%d8], {{%r1, %r2, %r3, %r4}}; {stores("r", 4, "%d2", 10)}"""
    (_, found, again), counts = run(body, [matrices, np.zeros((4, 32), np.uint32), np.zeros_like(matrices)], declared=SHARED)
    given = matrices.transpose(0, 2, 1) if trans else matrices
    # Thread t has of each matrix the words t of its rows one after the other.
    np.testing.assert_array_equal(found, np.ascontiguousarray(given).view(np.uint32).reshape(4, 32))
    np.testing.assert_array_equal(again, matrices)
    assert counts["shared.ldmatrix.wavefronts"] == counts["shared.ldmatrix.ideal"] == 4


def test_conflicts_of_ldmatrix() -> None:
    body = (
        "mov.u64 %d5, s; mad.lo.u64 %d7, %d0, 128, %d5; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%d7];"
    )
    _, counts = run(body, [np.zeros(1)], declared=SHARED)
    assert counts["shared.ldmatrix.wavefronts"] == 8 * counts["shared.ldmatrix.ideal"] == 32


def swizzled(rows: np.ndarray, pitch: int) -> np.ndarray:
    """Bytes of rows of `pitch` bytes, 8 rows a group, with the units of 16 bytes exchanged as TMA writes them."""
    data = np.zeros(rows.size, np.uint8)
    flat = np.ascontiguousarray(rows).reshape(-1)
    for at in range(flat.size):
        data[at ^ ((at >> 7 & pitch // 16 - 1) << 4)] = flat[at]
    return data


@pytest.mark.parametrize(
    ("kind", "pitch", "n", "a_in_registers", "b_transposed"),
    [
        ("bf16", 128, 16, False, False),
        ("bf16", 64, 8, False, False),
        ("bf16", 32, 24, False, False),
        ("f16", 128, 64, True, False),
        ("tf32", 128, 16, False, False),
        ("tf32", 32, 8, True, False),
        ("bf16", 128, 64, False, True),
        ("f16", 64, 32, True, True),
    ],
)
def test_wgmma(kind: str, pitch: int, n: int, a_in_registers: bool, b_transposed: bool) -> None:
    size = 4 if kind == "tf32" else 2
    k, per = 32 // size, pitch // size
    a, b = RNG.standard_normal((64, per)), RNG.standard_normal((n, per))  # rows of one pitch, of which the first k columns count
    if b_transposed:
        assert n == per
        b = RNG.standard_normal((k, n))
    a_bytes, b_bytes = (swizzled(packed(x, kind).view(np.uint8), pitch) for x in (a, b))
    start = -(-a_bytes.size // 1024) * 1024
    data = np.zeros(start + -(-b_bytes.size // 1024) * 1024, np.uint8)
    data[: a_bytes.size], data[start : start + b_bytes.size] = a_bytes, b_bytes
    mode = {128: 1, 64: 2, 32: 3}[pitch]

    def descriptor(at: int) -> int:
        return at >> 4 | (1 << 16) | (8 * pitch >> 4) << 32 | mode << 62

    lane = np.arange(128)
    warp, g, q = lane // 32, lane % 32 // 4, lane % 4
    words = packed(a, kind)
    a_given = np.stack([words[16 * warp + g + 8 * (i % 2), q + 4 * (i // 2)] for i in range(4)])
    first = "{%r10, %r11, %r12, %r13}" if a_in_registers else "%d30"
    results = ", ".join(f"%a{i}" for i in range(n // 2))
    flags = "" if kind == "tf32" else (f", {int(b_transposed)}" if a_in_registers else f", 0, {int(b_transposed)}")
    load_a = " ".join(f"ld.global.b32 %r{10 + i}, [%d20+{512 * i}];" for i in range(4))
    body = f"""shl.b64 %d20, %d0, 2; add.u64 %d20, %d2, %d20; {load_a} .reg .f32 %a<{n // 2}>;
    mov.u64 %d5, s; mov.u32 %r1, %r0;
    FILL: mul.wide.u32 %d6, %r1, 16; add.u64 %d7, %d1, %d6; add.u64 %d8, %d5, %d6; ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%d7];
    st.shared.v4.b32 [%d8], {{%r2, %r3, %r4, %r5}}; add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, {data.size // 16}; @%p1 bra FILL; bar.sync 0;
    mov.u64 %d30, {descriptor(0)}; mov.u64 %d31, {descriptor(start)}; wgmma.fence.sync.aligned;
    setp.ne.u32 %p2, 0, 0;
    wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{kind}.{kind} {{{results}}}, {first}, %d31, %p2, 1, 1{flags};
    setp.eq.u32 %p2, 0, 0;
    wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{kind}.{kind} {{{results}}}, {first}, %d31, %p2, 1, 1{flags};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; {stores("a", n // 2, "%d3", 0, 128)}"""
    (*_, found), counts = run(body, [data, a_given, np.zeros((n // 2, 128), np.float32)], threads=128, declared=SHARED)
    factor = rounded(b, kind).T if b_transposed else rounded(b, kind)[:, :k]
    expected = 2 * (rounded(a, kind)[:, :k] @ factor.T)
    layout = np.stack([expected[16 * warp + g + 8 * (i % 4 // 2), i // 4 * 8 + 2 * q + i % 2] for i in range(n // 2)])
    np.testing.assert_allclose(found, layout, rtol=1e-5, atol=1e-5)
    assert counts["mma.flop"] == 2 * 2 * 64 * n * k


@pytest.mark.parametrize(
    "text",
    [
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2, %r3, %r4}",
        "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4}",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d1, 1, 1, 1",
        "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d1, %r1, %p1",
    ],
)
def test_other_matrix_instructions_are_named(text: str) -> None:
    with pytest.raises(Unsupported, match=text.split()[0].replace(".", r"\.")):
        run(f"{text};", [np.zeros(1)], threads=128)
