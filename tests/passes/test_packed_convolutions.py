"""Convolutions as products with packed windows: every layout, stride, dilation, padding and group, against JAX in f64."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from legalize_support import Program, jax_text

from nabla_mlir.base import thresholds
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.scheduling.schedule_products import ScheduleProductsPass
from nabla_mlir.passes.iree.scheduling.split_dilated_convolutions import SplitDilatedConvolutionsPass

pytestmark = pytest.mark.slow

rng = np.random.default_rng(7)
EPS = {"f4": 2e-6, "f8": 1e-14}


class Case(NamedTuple):
    """A convolution: shapes of image and kernel, and how it is done."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    dims: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC")
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[tuple[int, int], ...] = ((1, 1), (1, 1))
    image_dilation: tuple[int, ...] = (1, 1)
    kernel_dilation: tuple[int, ...] = (1, 1)
    features: int = 1
    batches: int = 1

    def __call__(self, x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, self.strides, self.padding, self.image_dilation, self.kernel_dilation, self.dims, self.features, self.batches
        )


PLAIN = Case((2, 9, 8, 11), (3, 3, 11, 21))


def layouts() -> Iterator[Case]:
    """Every place of the features, in the image, the kernel and the result."""
    sizes = dict(zip("NHWCIO", (2, 9, 8, 11, 11, 21), strict=True))
    window = {"H": 3, "W": 2, "I": 11, "O": 21}
    for image, kernel, result in itertools.product(
        ("NHWC", "NCHW", "CHWN", "HNCW"), ("HWIO", "OIHW", "IHWO"), ("NHWC", "NCHW", "HWNC", "CNHW")
    ):
        yield Case(tuple(sizes[d] for d in image), tuple(window[d] for d in kernel), (image, kernel, result))


CASES = {
    "no_padding": PLAIN._replace(padding=((0, 0), (0, 0))),
    "padding_on_one_side": PLAIN._replace(padding=((0, 2), (3, 0))),
    "negative_padding": PLAIN._replace(padding=((-1, 1), (2, -3))),
    "strides": PLAIN._replace(strides=(2, 3)),
    "image_dilation": PLAIN._replace(image_dilation=(2, 3)),
    "image_dilation_and_negative_padding": PLAIN._replace(image_dilation=(2, 2), padding=((-2, 1), (1, -1))),
    "kernel_dilation": PLAIN._replace(kernel_dilation=(2, 1), padding=((2, 2), (1, 1))),
    "one_by_one": PLAIN._replace(kernel=(1, 1, 11, 21), padding=((0, 0), (0, 0))),
    "one_by_one_strided": PLAIN._replace(kernel=(1, 1, 11, 21), padding=((0, 0), (0, 0)), strides=(2, 2)),
    "groups_of_features": PLAIN._replace(image=(2, 9, 8, 12), kernel=(3, 3, 4, 21), features=3),
    "groups_of_features_in_front": PLAIN._replace(
        image=(2, 12, 9, 8), kernel=(21, 4, 3, 3), dims=("NCHW", "OIHW", "NCHW"), features=3
    ),
    "groups_of_images": PLAIN._replace(image=(6, 9, 8, 5), kernel=(3, 3, 5, 21), batches=3),
    "few_positions_behind_the_features": PLAIN._replace(
        image=(9, 30, 3, 3), kernel=(40, 30, 3, 3), dims=("NCHW", "OIHW", "NCHW"), padding=((0, 0), (0, 0))
    ),
    "long_runs": PLAIN._replace(image=(1, 4, 40, 3), kernel=(3, 3, 3, 17)),
    "many_terms": PLAIN._replace(image=(2, 6, 6, 70), kernel=(3, 3, 70, 18)),
    "one_axis": Case((3, 30, 6), (5, 6, 20), ("NWC", "WIO", "NWC"), (1,), ((2, 2),), (1,), (1,)),
    "three_axes": Case(
        (2, 5, 6, 7, 6), (3, 2, 3, 6, 20), ("NDHWC", "DHWIO", "NDHWC"), (1, 2, 1), ((1, 1), (0, 1), (1, 0)), (1,) * 3, (1,) * 3
    ),
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a convolution of a few thousand multiplications has several of each kind."""
    small = {"PACKED_PRODUCT": 1, "PACKED_SIDE": 2, "PACKED_TERMS": 40, "PACKED_ROWS": 13, "PACKED_GROUP_WORK": 50_000}
    for name, value in small.items():
        monkeypatch.setattr(thresholds, name, value)


def scheduled(text: str, vector_bytes: int) -> str:
    module = parse_module(text)
    ScheduleProductsPass(vector_bytes).run(module.operation)
    assert module.operation.verify()
    return str(module)


@pytest.mark.parametrize(
    ("dtype", "vector_bytes", "every"),
    [
        ("f4", 32, 64),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("f8", 32, 1), ("f4", 64, 7), ("f8", 64, 7), ("f4", 16, 7))),
    ],
)
@pytest.mark.usefixtures("small_blocks")
def test_convolutions_are_jaxs(dtype: str, vector_bytes: int, every: int) -> None:
    """Twice, since a kernel's own memory must not matter; what is read is not changed. Some layouts first, all if slow."""
    cases = CASES | {f"{x}_{w}_{y}": case for case in itertools.islice(layouts(), 0, None, every) for x, w, y in [case.dims]}
    args = {name: tuple(rng.standard_normal(s).astype(dtype) for s in case[:2]) for name, case in cases.items()}
    programs = {name: (lambda x, w, c=case: c(x, w), args[name]) for name, case in cases.items()}
    text = scheduled(jax_text(programs), vector_bytes)
    assert "stablehlo.convolution" not in text
    program = Program(text)
    for name, case in cases.items():
        before = [a.copy() for a in args[name]]
        wide = [a.astype("f8") for a in args[name]]
        want, scale = np.asarray(case(*wide)), np.asarray(case(*map(np.abs, wide)))
        for _ in range(2):
            got = program(name, *args[name])
            assert got.shape == want.shape
            assert (np.abs(got - want) <= EPS[dtype] * scale).all(), name
        assert all(np.array_equal(a, b) for a, b in zip(args[name], before, strict=True))


VIEWS = {
    "transposed_image": (lambda x, w: PLAIN(x.transpose(0, 2, 3, 1), w), (2, 11, 9, 8)),
    "reversed_image": (lambda x, w: PLAIN(x[:, ::-1, ::-1], w), PLAIN.image),
    "reversed_channels": (lambda x, w: PLAIN(x[..., ::-1], w), PLAIN.image),
    "reversed_on_one_side_of_padding": (
        lambda x, w: PLAIN._replace(padding=((0, 2), (1, 0)))(x.transpose(0, 2, 3, 1)[:, ::-1], w),
        (2, 11, 9, 8),
    ),
    "reversed_kernel": (lambda x, w: PLAIN(x, w[::-1, ::-1]), PLAIN.image),
    "transposed_and_reversed_kernel": (lambda x, w: PLAIN(x, w.transpose(1, 0, 2, 3)[::-1]), PLAIN.image),
}


@pytest.mark.usefixtures("small_blocks")
def test_views_are_read_where_they_lie() -> None:
    """Transposes and reversals of image and kernel cost nothing: they are strides."""
    args = {
        name: (rng.standard_normal(shape).astype("f4"), rng.standard_normal(PLAIN.kernel).astype("f4"))
        for name, (_, shape) in VIEWS.items()
    }
    text = scheduled(jax_text({name: (f, args[name]) for name, (f, _) in VIEWS.items()}), 32)
    program = Program(text)
    for name, (f, _) in VIEWS.items():
        want = np.asarray(f(*(jnp.asarray(a, "f8") for a in args[name])))
        np.testing.assert_allclose(program(name, *args[name]), want, rtol=0, atol=2e-5, err_msg=name)


@pytest.mark.usefixtures("small_blocks")
def test_derivatives_of_a_network_share_kernels() -> None:
    """Three kernels are enough for layers of all sizes: forwards, with regard to the image, and to the kernel."""

    def loss(kernels: Any, x: Any) -> Any:
        for w in kernels:
            x = jnp.tanh(PLAIN(x, w))
        return (x**2).sum()

    kernels = [rng.standard_normal((3, 3, a, b)).astype("f4") for a, b in itertools.pairwise((6, 10, 20, 30))]
    x = rng.standard_normal((2, 9, 8, 6)).astype("f4")
    text = scheduled(jax_text({"f": (jax.grad(loss), (kernels, x))}), 32)
    assert text.count("flow.dispatch @product") == 3 + 2 + 3
    assert text.count("hal.executable.source private") == 3
    got = Program(text)("f", *kernels, x)
    want = jax.grad(loss)([jnp.asarray(w, "f8") for w in kernels], jnp.asarray(x, "f8"))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * float(np.abs(b).max()))


@pytest.mark.usefixtures("small_blocks")
def test_not_numbers_reach_what_they_are_part_of() -> None:
    """Padding is zeros, and no product with what lies outside of the window."""
    x, w = rng.standard_normal(PLAIN.image).astype("f4"), rng.standard_normal(PLAIN.kernel).astype("f4")
    x[1, 8, 7, 10] = np.nan
    got = Program(scheduled(jax_text({"f": (lambda x, w: PLAIN(x, w), (x, w))}), 32))("f", x, w)
    want = np.isnan(np.asarray(PLAIN(x, w)))
    np.testing.assert_array_equal(np.isnan(got), want)


def test_small_convolutions_are_left_alone() -> None:
    x, w = np.ones((2, 9, 8, 24), "f4"), np.ones((3, 3, 24, 24), "f4")
    assert "flow.dispatch" not in scheduled(jax_text({"f": (lambda x, w: PLAIN(x, w), (x, w))}), 32)
    x = np.ones((2, 19, 18, 24), "f4")
    assert "flow.dispatch @product" in scheduled(jax_text({"f": (lambda x, w: PLAIN(x, w), (x, w))}), 32)
    assert "flow.dispatch" not in scheduled(jax_text({"f": (lambda x, w: PLAIN(x, w), (x.astype("i4"), w.astype("i4")))}), 32)


DILATED = {
    "gradient_of_strides": PLAIN._replace(image_dilation=(2, 2), padding=((2, 1), (2, 1))),
    "three_along_one_axis": PLAIN._replace(image_dilation=(3, 1), padding=((2, 2), (1, 1))),
    "two_and_three": PLAIN._replace(image_dilation=(2, 3), padding=((0, 1), (3, 2))),
    "negative_padding": PLAIN._replace(image_dilation=(2, 2), padding=((-3, 2), (1, -2))),
    "kernel_smaller_than_dilation": PLAIN._replace(kernel=(1, 2, 11, 21), image_dilation=(3, 3)),
    "dilated_kernel": PLAIN._replace(image_dilation=(2, 2), kernel_dilation=(3, 1), padding=((4, 3), (2, 2))),
    "common_factor": PLAIN._replace(image_dilation=(2, 2), kernel_dilation=(2, 1), padding=((4, 4), (2, 2))),
    "strides_too": PLAIN._replace(image_dilation=(2, 2), strides=(2, 1), padding=((2, 2), (2, 2))),
    "other_layout": PLAIN._replace(
        image=(2, 11, 9, 8), kernel=(21, 11, 3, 3), dims=("NCHW", "OIHW", "NCHW"), image_dilation=(2, 2)
    ),
    "groups": PLAIN._replace(image=(2, 9, 8, 12), kernel=(3, 3, 4, 21), features=3, image_dilation=(2, 2)),
}


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.usefixtures("small_blocks")
def test_dilated_convolutions_are_split_by_phases(split: bool) -> None:
    """With the kernel in both directions; the other axis, groups, strides and padding stay as they are."""
    args = {name: tuple(rng.standard_normal(s).astype("f4") for s in case[:2]) for name, case in DILATED.items()}
    text = jax_text({name: (lambda x, w, c=case: c(x, w), args[name]) for name, case in DILATED.items()})
    functions = text.removeprefix("module {\n").removesuffix("}\n")
    backwards = re.sub(r"@(\w+)\(", r"@\1_backwards(", functions).replace("reverse = [false, false]", "reverse = [true, true]")
    assert backwards.count("reverse = [true, true]") == len(DILATED)
    module = parse_module(f"module {{\n{functions}\n{backwards}}}")
    if split:
        SplitDilatedConvolutionsPass(32).run(module.operation)
    program = Program(scheduled(str(module), 32))
    for name, case in DILATED.items():
        x, w = (a.astype("f8") for a in args[name])
        axes = [case.dims[1].index(d) for d in "HW"]
        for entry, kernel in ((name, w), (f"{name}_backwards", np.flip(w, axes))):
            want = np.asarray(case(x, kernel))
            np.testing.assert_allclose(program(entry, *args[name]), want, rtol=0, atol=2e-5, err_msg=entry)


SLICED = {
    "kernel_of_an_argument": lambda x, w: PLAIN._replace(padding=((0, 0), (0, 0)))(x, w[:, ::2]),
    "image_of_an_argument": lambda x, w: PLAIN._replace(padding=((0, 0), (0, 0)))(x[:, 1:8, 1::2], w),
    "backwards": lambda x, w: PLAIN._replace(padding=((0, 0), (0, 0)))(x[:, 1:8][:, ::-1], w[::-1, 1:]),
    "with_padding": lambda x, w: PLAIN(x[:, 1:8, 2:], w),
    "computed": lambda x, w: PLAIN._replace(padding=((0, 0), (0, 0)))(jnp.sin(x)[:, 1:8], w),
    "a_product": lambda x, w: jnp.einsum("nhwi,hwio->no", x[:, 1:4, ::3], w[::-1, :, ::-1]),
}


@pytest.mark.usefixtures("small_blocks")
def test_slices_are_read_where_they_lie() -> None:
    """Those of what is in memory; not where zeros come around the slice, nor of what would be computed as a whole for it."""
    args = tuple(rng.standard_normal(shape).astype("f4") for shape in (PLAIN.image, PLAIN.kernel))
    text = scheduled(jax_text({name: (f, args) for name, f in SLICED.items()}), 32)
    program = Program(text)
    for name, f in SLICED.items():
        body = text[text.index(f"func.func @{name}(") :].partition("\n  }\n")[0]
        assert "flow.dispatch @product" in body, name
        assert ("stablehlo.reshape %arg0" in body) == (name not in ("with_padding", "computed")), name
        assert "stablehlo.reshape %arg1" in body, name
        want = np.asarray(f(*(jnp.asarray(a, "f8") for a in args)))
        np.testing.assert_allclose(program(name, *args), want, rtol=0, atol=2e-5, err_msg=name)
