"""Checks in parts: expensive products and loops are compiled separately, and compared with the interpreter on slices."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.compiling import checking, lowering, part_runs
from nabla_mlir.compiling.compiled_noise import perturb
from nabla_mlir.compiling.part_slices import cuts_of
from nabla_mlir.compiling.reference_check import check_in_parts
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.dialects.stablehlo import emit
from nabla_mlir.interpreter import interpreted
from nabla_mlir.runtime.array import Array

RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((6, 6)).astype(np.float32) / 3
IN_PARTS = nm.CPU("host", checking="parts")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(checking, "_known", {})


def steps(x, n=50_000):
    return nm.fori_loop(0, n, lambda _, c: (c[0] + 1e-3 * nnp.sin(c[0] @ SQUARE), c[1] + nnp.sum(c[0])), (x, 0.0 * x[0]))


def images(x, w):
    return nnp.sum(nm.jax.lax.conv_general_dilated(x, w, (1, 1), "SAME") ** 2, axis=(2, 3))


IMAGES = RNG.standard_normal((12, 3, 8, 8)).astype(np.float32), RNG.standard_normal((10, 3, 3, 3)).astype(np.float32)
PRODUCTS = (RNG.standard_normal((20, 30)).astype(np.float32),)
# A function, its arguments, and what its check says.
PROGRAMS = {
    "loop": (steps, (np.ones(6, np.float32),), "34 of 200000 iterations of 1 loop"),
    "products": (lambda x: nnp.tanh(x @ x.T) @ x, PRODUCTS, "slices of 2 products"),
    "batch": (lambda x: nnp.einsum("bij,bkj->bik", x, x), (RNG.standard_normal((9, 4, 5)),), "slices of 1 product"),
    "convolution": (images, IMAGES, "slices of 1 product"),
    "value decides": (
        lambda x: nm.while_loop(lambda c: nnp.sum(c * c) > 1e-3, lambda c: 0.9 * c, x),
        (np.ones(6),),
        "iterations of 1 loop",
    ),
    "nested": (
        lambda x: nm.fori_loop(0, 9, lambda i, c: nm.fori_loop(0, 7, lambda j, d: nnp.cos(d + i * j), c) * x, x),
        (np.ones(3, np.complex64),),
        "iterations of 2 loops",
    ),
    "branch": (
        lambda x: nm.cond(x[0] > 0, lambda: nm.fori_loop(0, 20, lambda _, c: nnp.sin(c) + x, x), lambda: x),
        (np.ones(3),),
        "iterations of 1 loop",
    ),
    "hvp": (
        nm.hvp(lambda x: nnp.sum(nm.scan(lambda c, _: (nnp.tanh(c @ SQUARE), c), x, None, 9)[1])),
        2 * (np.ones(6, np.float32),),
        "",
    ),
}


def compiled(f, *arguments, target=None):
    return nm.trace(f, *arguments, name="main").lower().compile(target or nm.CPU("host", checking="off"))


@pytest.fixture
def everything(monkeypatch):
    """Makes a part of each product and of each loop."""
    monkeypatch.setattr(thresholds, "PART", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_code_is_checked(everything, name):
    f, arguments, extent = PROGRAMS[name]
    code = compiled(f, *arguments)
    check = check_in_parts(code.module, code.target, code.vmfb)["main"]
    assert check.status == "checked", check
    assert "interpreted in parts (" in check.detail
    assert extent in check.detail
    assert check.ratio <= 1


def test_the_setting_checks_in_parts_what_takes_too_long():
    """A small program is interpreted as always."""
    code = compiled(steps, np.ones(6, np.float32), target=IN_PARTS)
    assert str(code.checks["main"]).endswith("interpreted in parts (34 of 200000 iterations of 1 loop)")
    assert "parts" not in str(compiled(lambda x: x @ x, np.ones((3, 3)), target=IN_PARTS).checks["main"])


def test_a_program_that_was_not_checked_is_checked_on_request():
    first = compiled(steps, np.ones(6, np.float32), target=nm.CPU("host"))
    assert first.checks["main"].status == "not checked"
    again = compiled(steps, np.ones(6, np.float32), target=IN_PARTS)
    assert (again.checks["main"].status, again.vmfb) == ("checked", first.vmfb)


def test_the_arguments_of_an_example_come_first():
    stage = nm.trace(steps, np.ones(6, np.float32), name="main").lower()
    check = stage.compile(IN_PARTS, example=(np.full(6, 0.3, np.float32),)).checks["main"]
    assert check.detail.startswith("on the arguments of a call, on random arguments, ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loop", "products", "convolution"])
def test_wrong_code_differs(everything, name):
    """The last rows of the results are swapped."""
    f, arguments, _ = PROGRAMS[name]
    right = compiled(f, *arguments)

    def wrong(*xs):
        out = f(*xs)
        y = out[0] if isinstance(out, tuple) else out
        y = y.at[-1].set(y[-2])
        return (y, *out[1:]) if isinstance(out, tuple) else y

    check = check_in_parts(right.module, right.target, compiled(wrong, *arguments).vmfb)["main"]
    assert check.status == "differs", check


@pytest.mark.parametrize(
    ("name", "where"), [("branch", "stablehlo.while"), ("products", "stablehlo.dot_general"), ("batch", "dot_general")]
)
def test_a_wrong_part_differs(everything, monkeypatch, name, where):
    """The part computes one row wrongly; the check names the operation and its line."""
    f, arguments, _ = PROGRAMS[name]
    code = compiled(f, *arguments)
    call = part_runs.PartRuns.call

    def damaged(self, part, inputs):
        out = call(self, part, inputs)
        arrays = [np.array(y) for y in out]
        next(y for y in arrays if y.ndim)[-1] += 0.001
        return [Array.from_numpy(y, out[0].device) for y in arrays]

    monkeypatch.setattr(part_runs.PartRuns, "call", damaged)
    check = check_in_parts(code.module, code.target, code.vmfb)["main"]
    assert check.status == "differs"
    assert where in check.detail
    assert "test_checks_in_parts.py:" in check.detail


def test_a_part_that_ends_too_early_differs(everything, monkeypatch):
    f, arguments, _ = PROGRAMS["value decides"]
    code = compiled(f, *arguments)
    some = part_runs._Loop._run_iterations

    def early(self, values, group, seed=0, units=0.0):
        return (values, 0) if group > 4 else some(self, values, group, seed, units)

    monkeypatch.setattr(part_runs._Loop, "_run_iterations", early)
    check = check_in_parts(code.module, code.target, code.vmfb)["main"]
    assert check.status == "differs"
    assert "the end of the loop" in check.detail


def test_chaos_is_not_checked(everything):
    """The compiled code rounds in another order than the program that it is compared with."""

    def chaos(step):
        return compiled(lambda x: nm.fori_loop(0, 3000, lambda _, c: step(c), x * x / (1 + x * x)), np.ones(4, np.float32))

    code, other = chaos(lambda c: 3.9 * c * (1 - c)), chaos(lambda c: 3.9 * c - 3.9 * c * c)
    code = dataclasses.replace(code, vmfb=other.vmfb)
    assert str(check_in_parts(code.module, code.target, code.vmfb)["main"]) == "not checked: rounding decides its values"


def test_a_loop_that_may_not_end_is_given_up(everything, monkeypatch):
    monkeypatch.setattr(part_runs, "_SECONDS", 0.2)
    code = compiled(lambda x: nm.while_loop(lambda c: c > 0, lambda c: c + x * x, x * x), np.float64(1.0))
    assert str(check_in_parts(code.module, code.target, code.vmfb)["main"]) == "not checked: the interpreter would take too long"


@pytest.mark.slow
def test_a_prepared_product_has_its_state(everything):
    module = nm.hvp_module(lambda w: nnp.sum(nnp.tanh(w @ SQUARE) ** 2), nm.spec((4, 6)))
    code = module.compile(nm.CPU("host", checking="off"))
    checks = check_in_parts(code.module, code.target, code.vmfb)
    assert {check.status for check in checks.values()} == {"checked"}


def test_a_long_sum_in_another_order_is_right(everything):
    """10⁵ terms of one sign: the sum of one loop, and the sum of two halves."""
    x = np.linspace(0.1, 1.0, 1000, dtype=np.float32)

    def total(x):
        return nm.fori_loop(0, 100_000, lambda i, s: s + x[i % 1000], 0 * x[0])

    def halves(x):
        return nm.fori_loop(0, 50_000, lambda i, s: s + (x[(2 * i) % 1000] + x[(2 * i + 1) % 1000]), 0 * x[0])

    code = compiled(total, x)
    check = check_in_parts(code.module, code.target, compiled(halves, x).vmfb)["main"]
    assert check.status == "checked", check


@pytest.mark.parametrize(
    ("name", "parameters", "shapes"),
    [
        (
            "stablehlo.dot_general",
            {
                "dot_dimension_numbers": {
                    "lhs_batching_dimensions": (1,),
                    "rhs_batching_dimensions": (0,),
                    "lhs_contracting_dimensions": (2,),
                    "rhs_contracting_dimensions": (2,),
                }
            },
            ((11, 9, 4), (9, 12, 4)),
        ),
        (
            "stablehlo.convolution",
            {"dimension_numbers": (("b", 0, "f"), (0, "i", "o"), ("b", 0, "f")), "batch_group_count": 1, "feature_group_count": 1},
            ((9, 7, 2), (3, 2, 10)),
        ),
    ],
)
def test_slices_reach_each_row_and_column(name, parameters, shapes):
    """The product of a slice is the slice of the product, for each long axis."""
    x, y = (RNG.standard_normal(shape) for shape in shapes)
    if name.endswith("convolution"):
        result = nm.jax.lax.conv_general_dilated(x, y, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        evaluate = lambda a, b: nm.jax.lax.conv_general_dilated(a, b, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))  # noqa: E731
        axes = {0, 2}
    else:
        result, axes = np.einsum("ibk,bjk->bij", x, y), {0, 1, 2}
        evaluate = lambda a, b: np.einsum("ibk,bjk->bij", a, b)  # noqa: E731
    cuts = cuts_of(name, parameters, (x.ndim, y.ndim), result.shape)
    assert {cut.result for cut in cuts} == axes
    for cut in cuts:
        a, b, part = cut.parts(x, y, np.asarray(result))
        assert part.shape[cut.result] == 8
        np.testing.assert_allclose(np.asarray(evaluate(a, b)), part, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "complex<f32>"])
def test_noise_moves_each_element_by_some_units(dtype):
    """With 0 units nothing changes; with 4 each element is at most 4 units off, and half of them move."""
    text = f"""func.func @f(%x: tensor<64x{dtype}>, %seed: tensor<i32>, %units: tensor<f32>) -> tensor<64x{dtype}> {{
        %y = stablehlo.add %x, %x : tensor<64x{dtype}>
        return %y : tensor<64x{dtype}>
    }}"""
    module = parse_module(text)
    function = functions_of(module.operation)["f"]
    block = function.regions[0].blocks[0]
    with context(), ir.Location.unknown():
        perturb([block.operations[0].operation], block.arguments[1], block.arguments[2])
    run = interpreted(module.operation, "f")
    wide = np.complex64 if "complex" in dtype else np.float64
    numpy_dtype = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}.get(dtype, np.complex64)
    x = np.linspace(0.5, 3.0, 64).astype(numpy_dtype)
    (exact,) = run([x, np.int32(7), np.float32(0)])
    np.testing.assert_array_equal(exact, (x.astype(wide) * 2).astype(x.dtype))
    (moved,), (other,) = run([x, np.int32(7), np.float32(4)]), run([x, np.int32(8), np.float32(4)])
    unit = {"f32": 2.0**-23, "complex<f32>": 2.0**-23, "f64": 2.0**-52, "bf16": 2.0**-7, "f16": 2.0**-10}[dtype]
    relative = np.abs(moved.astype(wide) - exact.astype(wide)) / np.abs(exact.astype(wide))
    assert relative.max() <= 5 * unit
    assert (relative > 0).mean() > 0.5
    assert (moved != other).any()


def test_parts_are_compiled_by_the_strategy_of_the_program(everything, monkeypatch):
    """With rewrites for speed, each product is wrong; without them, the program and its parts are right."""
    legalize = lowering.legalize

    def wrong(module, target, schedule=True):
        legal = legalize(module, target, schedule)
        for op in [op for op in nested(legal.operation) if op.name == "stablehlo.dot_general"] if schedule else ():
            with op.context, ir.InsertionPoint.after(op), op.location:
                double = emit("stablehlo.add", [op.results[0]] * 2, results=[op.results[0].type])
            op.results[0].replace_all_uses_except(double.results[0], double)
        return legal

    monkeypatch.setattr(lowering, "legalize", wrong)
    monkeypatch.setattr(thresholds, "CHECKING_SHARE", 0.0)  # the interpreter would take too long for all of it
    f, arguments, _ = PROGRAMS["batch"]
    with pytest.warns(RuntimeWarning, match="was compiled again without rewrites for speed, which is right"):
        code = compiled(f, *arguments, target=IN_PARTS)
    assert "interpreted in parts (slices of 1 product)" in code.checks["main"].detail
    np.testing.assert_allclose(code(*arguments), f(*arguments), rtol=1e-12)
