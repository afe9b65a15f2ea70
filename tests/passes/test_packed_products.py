"""Products with packed factors: every layout, edge and width of vectors, against NumPy in double precision."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, jax_text

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.kernels.layout import Axis, Layout
from nabla_mlir.passes.iree.kernels.product import Blocks, Product, ProductKernel, form_of
from nabla_mlir.passes.iree.scheduling.schedule_products import ScheduleProductsPass

rng = np.random.default_rng(5)
EPS = {"f4": 2e-6, "f8": 1e-14}

Case = tuple[str, tuple[int, ...], tuple[int, ...]]  # an einsum, and the shapes of its factors


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a product of a few thousand multiplications has several of each kind."""
    small = {
        "PACKED_PRODUCT": 1,
        "PACKED_PRODUCT_AVX512": 1,
        "PACKED_SIDE": 2,
        "PACKED_TERMS": 40,
        "PACKED_ROWS": 13,
        "PACKED_GROUP_WORK": 5000,
    }
    for name, value in small.items():
        monkeypatch.setattr(thresholds, name, value)


def matrices(m: int, n: int, k: int) -> tuple[Layout, Layout]:
    """The layouts of an m x k and a k x n matrix."""
    return Layout(m * k, (), (Axis(m, k),), (Axis(k, 1),)), Layout(k * n, (), (Axis(n, 1),), (Axis(k, n),))


def scheduled(text: str, vector_bytes: int) -> str:
    module = parse_module(text)
    ScheduleProductsPass(vector_bytes).run(module.operation)
    assert module.operation.verify()
    return str(module)


def layouts() -> Iterator[Case]:
    """Each order of a factor's axes whose last one is no batch; sizes around those of tiles, vectors and blocks."""
    sizes = itertools.cycle([(17, 16, 40), (6, 40, 33), (23, 19, 81), (8, 64, 16), (31, 33, 47), (2, 3, 16)])
    for left, right in itertools.product(("mk", "km"), ("kn", "nk")):
        for m, n, k in itertools.islice(sizes, 3):
            yield einsum(left, right, "mn", m=m, n=n, k=k)
    for left, right in (("bmk", "bkn"), ("mbk", "nbk"), ("kbm", "bkn"), ("bkm", "kbn")):
        m, n, k = next(sizes)
        yield einsum(left, right, "bmn", b=3, m=m, n=n, k=k)


def einsum(left: str, right: str, result: str, **sizes: int) -> Case:
    left_shape, right_shape = (tuple(sizes[x] for x in axes) for axes in (left, right))
    return f"{left},{right}->{result}", left_shape, right_shape


GENERAL = [
    einsum("abmk", "abkn", "abmn", a=2, b=3, m=9, n=20, k=17),  # batches that are one
    einsum("ambk", "abnk", "abmn", a=2, b=3, m=9, n=20, k=17),  # and that are not
    einsum("xyk", "kn", "xyn", x=5, y=4, n=18, k=33),  # two free axes that are one
    einsum("xyk", "xyn", "kn", x=5, y=6, n=18, k=33),  # two axes of terms that are one
    einsum("xky", "kn", "xyn", x=5, y=4, n=18, k=33),  # free axes apart: one is moved
    einsum("xmy", "yxn", "mn", x=5, y=6, n=18, m=7),  # terms in two orders
    einsum("mkb", "knb", "bmn", b=4, m=7, n=19, k=21),  # the batch last
    einsum("amk", "akn", "amn", a=1, m=20, n=18, k=33),  # axes of size 1
]


@pytest.mark.parametrize(
    ("dtype", "vector_bytes"),
    [("f4", 32), *(pytest.param(d, w, marks=pytest.mark.slow) for d, w in (("f8", 32), ("f4", 64), ("f8", 64), ("f4", 16)))],
)
@pytest.mark.usefixtures("small_blocks")
def test_products_are_numpys(dtype: str, vector_bytes: int) -> None:
    """Twice, since a kernel's own memory must not matter; what is read is not changed."""
    cases = {f"f{i}": case for i, case in enumerate([*layouts(), *GENERAL])}
    args = {name: [rng.standard_normal(s).astype(dtype) for s in shapes] for name, (_, *shapes) in cases.items()}
    programs = {name: (lambda a, b, e=cases[name][0]: jnp.einsum(e, a, b), tuple(args[name])) for name in cases}
    text = scheduled(jax_text(programs), vector_bytes)
    assert "stablehlo.dot_general" not in text
    program = Program(text)
    for name, (equation, *_) in cases.items():
        before = [a.copy() for a in args[name]]
        wide = [a.astype("f8") for a in args[name]]
        want, scale = np.einsum(equation, *wide), np.einsum(equation, *map(np.abs, wide))
        for _ in range(2):
            got = program(name, *args[name])
            assert got.shape == want.shape
            assert (np.abs(got - want) <= EPS[dtype] * scale).all(), equation
        assert all(np.array_equal(a, b) for a, b in zip(args[name], before, strict=True))


@pytest.mark.usefixtures("small_blocks")
def test_not_numbers_reach_their_own_row_and_column() -> None:
    """What pads a panel is never seen; an infinite or undefined element reaches what it is part of and nothing else."""
    a, b = rng.standard_normal((19, 50)).astype("f4"), rng.standard_normal((50, 21)).astype("f4")
    a[18, 49], b[3, 20] = np.nan, np.inf
    program = Program(scheduled(jax_text({"f": (jnp.matmul, (a, b))}), 32))
    got = program("f", a, b)
    assert np.isnan(got[18]).all()
    assert np.isinf(got[:18, 20]).all()
    assert np.isfinite(got[:18, :20]).all()


@pytest.mark.usefixtures("small_blocks")
def test_one_kernel_for_all_sizes() -> None:
    """Its text does not depend on the sizes; products whose factors lie alike share it."""

    def f(a: Any, b: Any, c: Any) -> Any:
        return a @ b @ c, a.T @ (a @ b)

    shapes = (40, 30), (30, 50), (50, 20)
    text = scheduled(jax_text({"f": (f, tuple(np.ones(s, "f4") for s in shapes))}), 32)
    assert text.count("flow.dispatch @") == 4
    assert text.count("hal.executable.source private") == 2


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("length", [24, 255, 256, 257, 300, 513, 6145, 6400])
def test_blocks_of_terms_are_few_and_even(length: int, vector_bytes: int) -> None:
    """Blocks are even, of whole vectors but for the last one, and cover all."""
    product = Product((), *matrices(64, 64, length), "f32")
    blocks = Blocks.of(product, form_of(product, vector_bytes))
    last = (length - 1) % blocks.terms + 1
    assert 0 < last <= blocks.terms <= thresholds.PACKED_TERMS
    assert blocks.terms == length or blocks.terms % (vector_bytes // 4) == 0
    assert -(-length // blocks.terms) == -(-length // thresholds.PACKED_TERMS)


@pytest.mark.parametrize("sizes", [(24, 24, 5000), (1500, 1500, 1500), (169, 2048, 6259), (100_000, 30, 64), (31, 9000, 40)])
def test_shares_cover_the_result_once(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    product = Product((), *matrices(m, n, k), "f32")
    blocks = Blocks.of(product, form_of(product, 32))
    for size, share, count in zip((m, n), blocks.share, blocks.counts, strict=True):
        assert share * (count - 1) < size <= share * count
    kernel = ProductKernel.of(product, 32)
    assert kernel.results[0] == (1, m, n)
    assert kernel.results[1][0] == blocks.counts[0] * blocks.counts[1] <= 2 * thresholds.PACKED_GROUPS


def test_small_products_are_left_alone() -> None:
    """Those with fewer multiplications, or a short side, or of another dtype."""
    eye = lambda m, k, n, dtype="f4": (jnp.matmul, (np.ones((m, k), dtype), np.ones((k, n), dtype)))  # noqa: E731
    cases = {"a": eye(64, 64, 64), "b": eye(8, 4096, 4096), "c": eye(512, 512, 512, "i4")}
    assert "flow.dispatch" not in scheduled(jax_text(cases), 32)
    assert "flow.dispatch @product" in scheduled(jax_text({"a": eye(128, 128, 128)}), 32)


SUMS = {
    "two": (lambda a, b, c, d: a @ b + c @ d, 1),
    "three": (lambda a, b, c, d: (a @ b + c @ d) + (2 * a) @ (3 * b), 2),
    "three_the_other_way": (lambda a, b, c, d: a @ b + (c @ d + (2 * a) @ (3 * b)), 1),
    "reshaped": (lambda a, b, c, d: (a @ b).reshape(10, -1) + (c @ d).reshape(10, -1), 1),
    "read_twice": (lambda a, b, c, d: ((x := a @ b) + c @ d, x * 2), 0),
    "twice_itself": (lambda a, b, c, d: (x := a @ b) + x, 0),
    "a_sum_as_a_factor": (lambda a, b, c, d: (a @ b + c @ d) @ d[:40, :40] + (2 * a) @ b, 2),
    "with_an_argument": (lambda a, b, c, d: a @ b + d[:30, :40], 0),
    "in_a_loop": (
        lambda a, b, c, d: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, a @ b + s[1] @ d[:40, :40]), (0, c[:, :40]))[1],
        1,
    ),
}


@pytest.mark.usefixtures("small_blocks")
def test_sums_of_products_are_made_in_place() -> None:
    """The later product is added in the memory of the earlier one, which nothing else reads; nothing else changes."""
    shapes = (30, 50), (50, 40), (30, 45), (45, 40)
    args = [rng.standard_normal(s).astype("f4") for s in shapes]
    text = scheduled(jax_text({name: (f, tuple(args)) for name, (f, _) in SUMS.items()}), 32)
    before, program = [a.copy() for a in args], Program(text)
    for name, (f, tied) in SUMS.items():
        body = text[text.index(f"func.func @{name}(") :].partition("\n  }\n")[0]
        assert len(re.findall(r"flow.dispatch @.*\) -> \(%", body)) == tied, name
        wants = jax.tree.leaves(f(*(jnp.asarray(a, "f8") for a in args)))
        scale = max(float(np.abs(w).max()) for w in wants)
        for _ in range(2):
            gots = program(name, *args)
            for got, want in zip(gots if isinstance(gots, tuple) else (gots,), wants, strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * scale, err_msg=name)
    assert all(np.array_equal(a, b) for a, b in zip(args, before, strict=True))
