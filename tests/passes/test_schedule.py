"""Scheduled products and convolutions, compiled by IREE, against NumPy and XLA."""

import re

import jax
import numpy as np
import pytest
from xla import run_module

import nabla_mlir as nm
import nabla_mlir.numpy as jnp
from nabla_mlir import CPU, runtime
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.lowering import legalize
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.iree.pipeline import SchedulePipeline
from nabla_mlir.passes.iree.scheduling import schedule_products
from nabla_mlir.passes.iree.scheduling.tiles import Tiles, largest_divisor, matrix_product, rows_times_vector
from nabla_mlir.passes.pipeline import Pipeline

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(2)
WIDE = CPU("skylake-avx512")  # which products get tiles depends on the registers: that of the thresholds, wherever this runs

# Layouts of the factors: a shape for each, and the contracted dimensions.
LAYOUTS = {
    "ik,k": lambda m, n, k: ((m, k), (k,), 1, 0),
    "k,ik": lambda m, n, k: ((k,), (m, k), 0, 1),
    "ki,k": lambda m, n, k: ((k, m), (k,), 0, 0),
    "k1,ki": lambda m, n, k: ((k, 1), (k, m), 0, 0),
    "ik,kj": lambda m, n, k: ((m, k), (k, n), 1, 0),
    "ki,kj": lambda m, n, k: ((k, m), (k, n), 0, 0),
    "ik,jk": lambda m, n, k: ((m, k), (n, k), 1, 1),
    "ki,jk": lambda m, n, k: ((k, m), (n, k), 0, 1),
}
SIZES = [(2000, 500), (64, 64), (1, 300), (7, 509), (5, 1), (130, 16), (3, 1021)]
PRODUCTS = [(layout, m, 1, k) for layout in list(LAYOUTS)[:4] for m, k in SIZES]
PRODUCTS += [
    (layout, m, n, k)
    for layout in list(LAYOUTS)[4:]
    for m, n, k in [(37, 32, 64), (64, 64, 10), (8, 96, 7), (9, 10, 33), (50, 100, 20)]
]
PRODUCTS += [("ik,jk", m, n, k) for m, n, k in [(8, 96, 32), (32, 300, 16), (40, 320, 33)]]  # a tall right factor


def tensor(shape, dtype):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}>"


def product(name, layout, m, n, k, dtype):
    left, right, lc, rc = LAYOUTS[layout](m, n, k)
    out = tensor([s for i, s in enumerate(left) if i != lc] + [s for i, s in enumerate(right) if i != rc], dtype)
    types = f"{tensor(left, dtype)}, {tensor(right, dtype)}"
    return (
        f"func.func @{name}(%a: {tensor(left, dtype)}, %b: {tensor(right, dtype)}) -> {out} {{\n"
        f"  %0 = stablehlo.dot_general %a, %b, contracting_dims = [{lc}] x [{rc}] : ({types}) -> {out}\n"
        f"  return %0 : {out}\n}}\n"
    )


@pytest.mark.parametrize(("rows", "tiled"), [(16, 0), (64, 1)])
def test_a_tall_right_factor_is_not_turned(rows, tiled):
    """Of 64x512 and 640x512, the first is transposed, and the result; few rows are left to IREE's own tiles."""
    module = parse_module(product("f", "ik,jk", rows, 640, 512, "f32"))
    Pipeline(SchedulePipeline(vector_bytes=64).passes()).run(module.operation)
    text = str(module)
    assert text.count("linalg.generic") == tiled
    assert text.count("stablehlo.dot_general") == 1 - tiled
    assert re.findall(r"stablehlo.transpose.*: \(tensor<(\w+)>", text) == [f"{rows}x512xf32", f"640x{rows}xf32"]


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_products(vector_bytes):
    check_products(PRODUCTS, vector_bytes)


def check_products(products, vector_bytes):
    """Compares scheduled products with NumPy's, and returns the module."""
    cases = {f"f{i}_{dtype}": (case, dtype) for i, case in enumerate(products) for dtype in ("f32", "f64")}
    module = parse_module("".join(product(name, *case, dtype) for name, (case, dtype) in cases.items()))
    Pipeline(SchedulePipeline(vector_bytes=vector_bytes).passes()).run(module.operation)
    assert str(module).count("linalg.generic") > len(cases) / 3
    executable = runtime.Executable.load(compile_module(str(module), CPU()), "local-task")
    for name, ((layout, m, n, k), dtype) in cases.items():
        left, right, lc, rc = LAYOUTS[layout](m, n, k)
        a, b = (rng.normal(size=s).astype(f"f{int(dtype[1:]) // 8}") for s in (left, right))
        (found,) = executable.function(name)([a, b])
        wanted = np.tensordot(a.astype(float), b.astype(float), ((lc,), (rc,)))
        bound = k * np.finfo(a.dtype).eps * np.tensordot(abs(a), abs(b), ((lc,), (rc,)))
        assert np.all(abs(np.asarray(found) - wanted) <= bound), (name, layout, m, n, k)
    return str(module)


# Batches: the axes of each factor (b and c are batches, i and j free, k is contracted), and the sizes of b, i, j and k.
BATCHES = [
    ("bik,bkj->bij", (3, 20, 50, 12)),
    ("bik,bjk->bij", (7, 12, 33, 20)),
    ("bki,jbk->bij", (50, 10, 20, 30)),
    ("ibk,jkb->bij", (2, 300, 20, 17)),
    ("bcik,cbkj->bcij", (3, 30, 20, 9)),
    ("bik,bkj->bij", (64, 5, 7, 3)),
    ("bik,bkj->bij", (5, 64, 32, 16)),
]


def test_batches_of_products():
    cases = [(*case, dtype) for case in BATCHES for dtype in ("f4", "f8")]
    sizes = [dict(zip("bijk", case[1], strict=True)) | {"c": 2} for case in cases]
    inputs = [
        [rng.normal(size=[size[axis] for axis in axes]).astype(dtype) for axes in layout.split("->")[0].split(",")]
        for (layout, _, dtype), size in zip(cases, sizes, strict=True)
    ]
    lowered = nm.trace(
        lambda pairs: [jnp.einsum(case[0], *pair) for case, pair in zip(cases, pairs, strict=True)], inputs, name="main"
    ).lower()
    scheduled = str(legalize(lowered.module, WIDE))
    assert scheduled.count("linalg.generic") == 2 * 5  # not the small one, and not the one that fills vectors
    for (layout, (*_, k), _), pair, found in zip(cases, inputs, lowered.compile(CPU())(inputs), strict=True):
        bound = k * np.finfo(pair[0].dtype).eps * np.einsum(layout, *map(abs, pair))
        assert np.all(abs(np.asarray(found) - np.einsum(layout, *(x.astype(float) for x in pair))) <= bound), layout


# One matrix with each of several: the axes of both factors, of the result, and the sizes of b, i, j and k; enough for tiles.
SHARED = [
    ("bki,kj->bij", (3, 64, 96, 48)),
    ("bki,jk->bij", (2, 60, 70, 80)),
    ("ik,bkj->bij", (3, 72, 96, 40)),
    ("ki,bkj->bij", (5, 64, 65, 64)),
    ("ik,bjk->bij", (2, 64, 80, 64)),
    ("ki,bjk->bij", (4, 100, 50, 60)),
    ("bki,kj->ibj", (3, 64, 96, 48)),
]


def test_products_with_a_shared_factor() -> None:
    """Each is one loop nest: no product stands alone, and the shared factor is not copied for each of them."""
    cases = [(layout, dict(zip("bijk", sizes, strict=True)), dtype) for layout, sizes in SHARED for dtype in ("f4", "f8")]
    pairs = [
        [rng.normal(size=[size[axis] for axis in axes]).astype(dtype) for axes in layout.split("->")[0].split(",")]
        for layout, size, dtype in cases
    ]
    lowered = nm.trace(
        lambda pairs: [jnp.einsum(case[0], *pair) for case, pair in zip(cases, pairs, strict=True)], pairs, name="main"
    ).lower()
    text = str(legalize(lowered.module, WIDE))
    assert text.count("linalg.generic") == len(cases)
    assert "stablehlo.dot_general" not in text
    assert "stablehlo.concatenate" not in text
    executable = runtime.Executable.load(compile_module(text, CPU()), "local-task")
    found = executable.function("main")([x for pair in pairs for x in pair])
    for (layout, size, dtype), pair, result in zip(cases, pairs, found, strict=True):
        bound = size["k"] * np.finfo(dtype).eps * np.einsum(layout, *map(abs, pair))
        assert np.all(abs(np.asarray(result) - np.einsum(layout, *(x.astype(float) for x in pair))) <= bound), layout


def test_products_of_integers_with_a_shared_factor_have_no_tiles() -> None:
    several, shared = rng.integers(-9, 9, (3, 64, 96)).astype(np.int32), rng.integers(-9, 9, (64, 48)).astype(np.int32)
    lowered = nm.trace(lambda b, a: jnp.einsum("bki,kj->bij", b, a), several, shared, name="main").lower()
    text = str(legalize(lowered.module, WIDE))
    assert "linalg.generic" not in text
    (found,) = runtime.Executable.load(compile_module(text, CPU()), "local-task").function("main")([several, shared])
    np.testing.assert_array_equal(np.asarray(found), np.einsum("bki,kj->bij", several, shared))


# Products among what IREE fuses with them, in loops, and under every derivative.
def _layer(w, x, y):
    return jnp.sum(jnp.tanh(w @ (x * y) + jnp.cos(w @ y)) ** 2)


def _two_ways(w, x, y):
    return jnp.sum((w.T @ jnp.sin(w @ x)) * y)


def _loop(w, x, y):
    return jnp.sum(nm.fori_loop(0, 3, lambda i, c: jnp.tanh(w[:96] @ c) + x, y) ** 2)


def _square(w, x, y):
    return jnp.sum(jnp.tanh(w.T @ w) @ x * y)


def _neighbours(w, x, y):
    z = jnp.concatenate([w.ravel(), x])
    for _ in range(2):  # slices of slices, and with steps
        z = jnp.where(z[1:] > 0, z[1:] * z[:-1], z[:-1] - 2.0)
    return jnp.sum(z[::2] ** 2) + jnp.sum(z[3:100] * y[0])


def _whitened(w, x, y):
    """A batch of products whose factors and results are turned."""
    apart = w[:, None, :30] - jnp.reshape(x[:90], (3, 30))[None]
    scaled = jnp.einsum("kij,nkj->nki", jnp.reshape(w.ravel()[:2700], (3, 30, 30)), apart) * y[:30]
    return jnp.sum(jnp.log(jnp.sum(jnp.exp(-jnp.sum(scaled**2, axis=2)), axis=1)))


def _points(w, x, y):
    apart = w[:, None, :3] - w[None, :, :3]
    distance = jnp.sqrt(jnp.sum(apart * apart, axis=-1) + 0.1)
    return jnp.sum(x[0] / distance) + jnp.sum(jnp.where(distance > 0.4, distance, 0.0)) * y[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_programs(dtype):
    functions = [_layer, _two_ways, _loop, _square, _neighbours, _whitened, _points]
    args = [rng.normal(size=s).astype(dtype) / 8 for s in ((200, 96), (96,), (96,))]
    directions = tuple(rng.normal(size=a.shape).astype(dtype) for a in args)

    def all_of(args, directions):
        return [nm.hvp(lambda p, f=f: f(*p))(tuple(args), tuple(directions)) for f in functions]

    lowered = nm.trace(all_of, args, directions, name="main").lower()
    scheduled = str(legalize(lowered.module, CPU()))
    assert "compilation_info" in scheduled
    found = lowered.compile(CPU())(args, directions)
    wanted = run_module(lowered.mlir(), [*args, *directions])
    leaves = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, nm.Array))
    for ours, theirs in zip(leaves, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=(1e-4 if dtype == "f4" else 1e-12) * np.max(abs(theirs)))


# Kernel gradients of convolutions: lhs, rhs, result, the dimension numbers, the window.
CONVOLUTIONS = {
    "two axes": ((2, 9, 8, 3), (2, 9, 8, 4), (3, 3, 3, 4), "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]", "pad = [[1, 1], [1, 1]]"),
    "strides and dilation": (
        (2, 11, 9, 3),
        (2, 5, 4, 2),
        (3, 2, 3, 2),
        "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
        "stride = [1, 2], pad = [[1, -1], [0, 1]], rhs_dilate = [2, 2]",
    ),
    "reversed": ((2, 3, 10), (5, 2, 9), (3, 5, 2), "[f, b, 0]x[o, i, 0]->[b, f, 0]", "reverse = [true]"),
    "three axes": ((2, 4, 5, 4, 1), (2, 3, 4, 3, 2), (2, 2, 2, 1, 2), "[f, 0, 1, 2, b]x[i, 0, 1, 2, o]->[0, 1, 2, b, f]", ""),
    "one axis": ((2, 11, 3), (4, 3, 5), (2, 6, 5), "[b, 0, f]x[0, i, o]->[b, 0, f]", "stride = [2], pad = [[2, 1]]"),
    "one axis, between zeros": (
        (2, 6, 4),
        (3, 6, 5),
        (5, 2, 3),
        "[b, f, 0]x[0, i, o]->[f, b, 0]",
        "pad = [[-1, 1]], lhs_dilate = [2], rhs_dilate = [2], reverse = [true]",
    ),
    "one channel": ((2, 7, 6, 1), (3, 2, 1, 4), (2, 7, 5, 4), "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "pad = [[1, 1], [0, 0]]"),
    "batch last": ((9, 2, 3), (8, 2, 4), (2, 4, 3), "[0, f, b]x[0, i, o]->[0, f, b]", ""),
}


def test_convolutions():
    text = ""
    for i, (lhs, rhs, out, numbers, window) in enumerate(CONVOLUTIONS.values()):
        types = [tensor(s, "f32") for s in (lhs, rhs, out)]
        text += (
            f"func.func @f{i}(%a: {types[0]}, %b: {types[1]}) -> {types[2]} {{\n"
            f"  %0 = stablehlo.convolution(%a, %b) dim_numbers = {numbers}, window = {{{window}}} {{batch_group_count = 1 : i64, "
            f"feature_group_count = 1 : i64}} : ({types[0]}, {types[1]}) -> {types[2]}\n  return %0 : {types[2]}\n}}\n"
        )
    module = parse_module(text)
    Pipeline(SchedulePipeline().passes()).run(module.operation)
    assert "stablehlo.convolution" not in str(module)
    executable = runtime.Executable.load(compile_module(str(module), CPU()), "local-sync")
    for i, (lhs, rhs, *_) in enumerate(CONVOLUTIONS.values()):
        a, b = (rng.normal(size=s).astype(np.float32) for s in (lhs, rhs))
        single = "module {" + text.split("func.func")[i + 1].join(["func.func", "}"])
        (wanted,) = run_module(single.replace(f"@f{i}", "@main"), [a, b])
        np.testing.assert_allclose(np.asarray(executable.function(f"f{i}")([a, b])[0]), wanted, rtol=1e-4, atol=1e-4)


def test_tiles():
    assert [largest_divisor(n, 64) for n in (500, 512, 509, 1)] == [50, 64, 1, 1]
    assert rows_times_vector(2000, 509, 16) is None  # prime: the caller cuts it
    assert matrix_product(3, 250, 784, 16) is None  # no tile of rows
    assert matrix_product(784, 256, 128, 16) == Tiles((112, 32, 0), (8, 32, 0), (0, 0, 1))  # workgroups of one size
    assert matrix_product(250, 300, 77, 16).parallel == (5, 32, 0)  # no row is left over
    assert matrix_product(1797, 10, 31, 16) == Tiles((1797, 10, 0), (8, 10, 0), (0, 0, 31))  # prime


def test_order_of_sums_can_be_kept():
    traced = nm.trace(lambda a, x: a @ x, nm.spec((200, 96)), nm.spec(96), name="main").lower()
    assert "compilation_info" in str(legalize(traced.module, CPU()))
    assert "compilation_info" not in str(legalize(traced.module, CPU(reassociate=False)))


def test_one_matrix_with_each_of_several() -> None:
    """What a map over matrices makes of a product with a shared factor, over every pair of axes."""
    several, shared = rng.normal(size=(3, 20, 16)), rng.normal(size=(20, 16))
    cases = [(axis, other) for axis in (0, 1) for other in (0, 1)]

    def products(b, a):
        out = []
        for axis, other in cases:
            b_ = b if axis == 0 else jnp.swapaxes(b, 1, 2)
            a_ = a if other == 0 else a.T
            k = min(b_.shape[1], a_.shape[0])
            left, right = b_[:, :k], a_[:k]
            out += [nm.vmap(lambda x, r=right: x.T @ r)(left), nm.vmap(lambda x, r=right: r.T @ x)(left)]
        return out

    found = nm.jit(products)(several, shared)
    for i, (axis, other) in enumerate(cases):
        b, a = several if axis == 0 else several.swapaxes(1, 2), shared if other == 0 else shared.T
        k = min(b.shape[1], a.shape[0])
        wanted = np.einsum("bki,kj->bij", b[:, :k], a[:k])
        np.testing.assert_allclose(np.asarray(found[2 * i]), wanted, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(found[2 * i + 1]), wanted.swapaxes(1, 2), rtol=1e-12, atol=1e-12)


def test_what_iree_refuses_is_compiled_as_it_was(monkeypatch):
    monkeypatch.setattr(schedule_products, "rows_times_vector", lambda *_: Tiles((200, 0), (200, 0), (0, 96)))
    a, x = rng.normal(size=(200, 96)), rng.normal(size=96)
    compiled = nm.trace(lambda a, x: a @ x, a, x, name="main").lower()
    with pytest.warns(RuntimeWarning, match="IREE refuses this module as nabla-schedule writes it"):
        found = compiled.compile(CPU(), cache=False)(a, x)
    np.testing.assert_allclose(found, a @ x, rtol=1e-12)


def test_no_barrier_of_the_schedule_cuts_the_program():
    """IREE would run each part on its own, in memory that its pool of threads does not find again."""
    weights = [rng.normal(size=(256, 256)).astype("f4") for _ in range(2)]
    x = rng.normal(size=(64, 256)).astype("f4")

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean(x)

    lowered = nm.trace(nm.hvp(loss), weights, weights, x).lower()
    scheduled = str(legalize(lowered.module, WIDE))
    assert "compute_barrier.start" in scheduled
    assert "optimization_barrier" not in scheduled


def test_wide_convolutions_compile_at_once(monkeypatch):
    """With the workgroups that IREE takes by itself it refuses them, and more remedies than one cost time."""
    monkeypatch.setattr("nabla_mlir.passes.iree.faults.table.WITH_REMEDIES", ())
    kernels = [(rng.normal(size=(3, 3, *sizes)) / 30).astype("f4") for sizes in ((3, 64), (64, 64))]
    images = rng.normal(size=(4, 8, 8, 3)).astype("f4")

    def loss(kernels, conv, silu):
        x = images
        for kernel in kernels:
            x = silu(conv(x, kernel))
        return x.mean()

    found = nm.jit(nm.grad(lambda kernels: loss(kernels, nm.nn.conv, nm.nn.silu)))(kernels)
    conv = lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))  # noqa: E731
    wanted = jax.grad(lambda kernels: loss(kernels, conv, jax.nn.silu))(kernels)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-7)
