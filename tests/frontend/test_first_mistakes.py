"""Mistakes of the first hour: each message names the user's line, the condition, the values and a remedy."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import (
    AssignmentError,
    ConcretizationError,
    DeployError,
    DtypeError,
    PassError,
    PerformanceWarning,
    ShapeError,
    TargetError,
    TraceError,
    TreeError,
)
from nabla_mlir.jax.scipy import special
from nabla_mlir.ops.elementwise import elementwise, reals

X = np.ones(3)


def norm(x: Any) -> Any:
    return nnp.sum(x**2)


def in_buffer(x: Any, buffer: Any) -> Any:
    buffer[:] = nnp.sin(x)
    return nnp.sum(buffer * buffer)


def filled(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] ** 2
    return out.sum()


def assigned(index: Any, value: Any) -> None:
    y = nnp.ones(3)
    y[index] = value


class Leaves:
    """A class that is no node of trees."""


H = nm.HessianOperator(lambda x: nnp.sum(x**4), X)
J = nm.JacobianOperator(lambda x: x[:2] ** 2, X)

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str, str]] = {
    "hvp of a wrong v": (
        lambda: nm.hvp(norm)(X, np.ones(4)),
        ShapeError,
        r"hvp requires a vector v with the shape of x, got v of shape \(4,\) for x of shape \(3,\)",
        "",
    ),
    "hvp without v": (
        lambda: nm.hvp(norm)(X),
        TraceError,
        r"the function of hvp requires a point x and a vector v, got 1",
        r"nm.hvp\(f\)\(x, v\)",
    ),
    "hvp of a list": (lambda: nm.hvp(norm)(X, [1.0, 2.0, 3.0]), TreeError, "got a list in v for an array", "np.array"),
    "vjp of a wrong cotangent": (lambda: nm.vjp(norm, X)[1](X), ShapeError, r"got \(3,\) for \(\)\.", ""),
    "a NumPy array filled": (
        lambda: nm.grad(filled)(X),
        AssignmentError,
        "requires an array of nabla_mlir for a traced value v, got an array of NumPy",
        "nnp.zeros",
    ),
    "a NumPy array filled in jit": (lambda: nm.jit(filled)(X), TraceError, "requires an array of nabla_mlir", "nnp.stack"),
    "a NumPy function": (
        lambda: nm.jit(lambda x: np.sin(x))(X),
        ConcretizationError,
        "a NumPy function requires",
        "nabla_mlir.numpy",
    ),
    "an endless loop": (
        lambda: nm.jit(lambda: nm.while_loop(lambda s: s < 3, lambda s: s * 1.0, 0.0))(),
        PassError,
        "while_loop requires a body that changes what the condition reads",
        "never ends",
    ),
    "an endless loop outside jit": (
        lambda: nm.jit(lambda x: nm.while_loop(lambda s: s[0] < 3, lambda s: (s[0], s[1] + 1.0), (x, x)))(0.0),
        PassError,
        "while_loop requires a body that changes what the condition reads",
        "never ends",
    ),
    "no artifact": (lambda: nm.load("nope.vmfb"), DeployError, "got nope.vmfb, which does not exist", "nope.json next to it"),
    "no path": (lambda: nm.load(3), DeployError, "load requires a path, or the bytes of an artifact, got 3", "to_bytes"),
    "no driver": (
        lambda: nm.load(nm.trace(lambda x: x, nm.spec(2)).lower().compile().to_bytes(), driver="tpu"),
        DeployError,
        "tpu",
        "use",
    ),
    "no archive": (lambda: nm.load("nope.zip"), DeployError, "got nope.zip, which does not exist", "path"),
    "not an artifact": (lambda: nm.load(__file__), DeployError, "which is no artifact", "an artifact is a .zip"),
    "no dtype": (
        lambda: nm.spec(4, "floaty"),
        DtypeError,
        "a dtype requires a name of NumPy or MLIR, or a type, got 'floaty'",
        "f32",
    ),
    "no target": (
        lambda: nm.trace(norm, nm.spec(3)).lower().compile("gpu"),
        TargetError,
        "compile requires a known target, got 'gpu'",
        "'cuda'",
    ),
    "a stage that is not lowered": (
        lambda: nm.trace(norm, nm.spec(3)).compile(),
        TargetError,
        r"requires nm.Interpreter\(\) as its target, got None",
        "lower it",
    ),
    "a module of functions": (lambda: nm.module(a=norm), TraceError, "module requires traced functions, got function", "nm.trace"),
    "a multiple of an operator": (
        lambda: (2 * H) @ np.ones(5),
        ShapeError,
        r"a vector of 3 numbers or .*, got shape \(5,\)",
        "holds v",
    ),
    "a sum of operators": (
        lambda: (H + H / 2) @ np.ones((5, 2)),
        ShapeError,
        r"a matrix with 3 rows, got shape \(5, 2\)",
        "holds v",
    ),
    "a sum of unlike operators": (
        lambda: H - J,
        ShapeError,
        r"a sum of operators requires shapes that fit, got HessianOperator \(3, 3\) and \w+ \(2, 3\)",
        "",
    ),
    "a product of unlike operators": (
        lambda: H @ J,
        ShapeError,
        r"a product of operators requires shapes that fit, got HessianOperator \(3, 3\) and JacobianOperator \(2, 3\)",
        "",
    ),
    "a solver in a derivative": (
        lambda: nm.grad(lambda k: nnp.sum(nm.minimize(lambda x: nnp.sum((x - k) ** 2), X).x))(1.0),
        ConcretizationError,
        r"solved or compiled on its own requires numbers from outside, got Tensor\(float32\[\]\) from the function given to grad",
        "custom_root",
    ),
    "an operator in a derivative": (
        lambda: nm.grad(lambda k: nnp.sum(nm.HessianOperator(lambda x: nnp.sum((x - k) ** 3), X) @ X))(1.0),
        ConcretizationError,
        "requires numbers from outside, got Tensor",
        "outside of jit and grad",
    ),
    "a trace in a trace": (
        lambda: nm.jit(lambda k: nm.trace(lambda x: x * k, nm.spec(2)))(1.0),
        ConcretizationError,
        "requires numbers from outside, got Tensor",
        "outside of jit and grad",
    ),
    "data of a solver in a derivative": (
        lambda: nm.grad(lambda k: nnp.sum(nm.minimize(lambda x, k: nnp.sum((x - k) ** 2), X, k).x))(1.0),
        ConcretizationError,
        r"a compiled function requires numbers, got the traced tensor Tensor\(float32\[\]\) for k",
        "outside of jit and grad",
    ),
    "a function of PyTorch": (
        lambda: nm.grad(lambda x: type(x).__torch_function__(np.sin, ()))(1.0),  # torch.sin(x) calls this method
        ConcretizationError,
        "PyTorch's sin requires tensors of PyTorch, got a tensor that nabla_mlir traces",
        "nabla_mlir.numpy and nabla_mlir.nn",
    ),
    "a condition of several": (
        lambda: nm.grad(lambda x: nnp.sum(x) if x > 0 else 0.0)(X),
        ShapeError,
        r"bool\(\) requires one truth value, got an array of shape \(3,\)",
        r"\.any\(\)",
    ),
    "an assignment outside": (
        lambda: assigned(7, 1.0),
        IndexError,
        r"an array of shape \(3,\), got 7: index 7 is out of bounds",
        "",
    ),
    "an assignment of a wrong shape": (
        lambda: assigned(slice(2), X),
        ShapeError,
        r"a value that broadcasts to this part of x, of shape \(2,\), got shape \(3,\)",
        "",
    ),
    "a Fisher matrix without a distribution": (
        lambda: nm.fisher_module(norm, {"w": X}, X),
        TraceError,
        "requires a distribution among gaussian, .*, got a dict",
        "second argument",
    ),
    "an argument of SciPy's minimize": (
        lambda: nm.minimize(norm, X, args=(1.0,)),
        TraceError,
        "requires arguments among its own, got args",
        "follow x0",
    ),
    "an option as an argument": (lambda: nm.minimize(norm, X, maxiter=3), TraceError, "got maxiter", "options={'maxiter'"),
    "an option of another method": (
        lambda: nm.minimize(norm, X, method="newton-cg", options={"gtol": 1e-3}),
        TraceError,
        "requires options that newton-cg has, got gtol",
        "show_options",
    ),
    "a sparse matrix in NumPy": (
        lambda: np.linalg.inv(nm.sparse.hessian(norm)(X)),
        TraceError,
        "NumPy and SciPy require arrays and their own matrices, got a SparseMatrix",
        r"to_scipy\(\)",
    ),
    "a list times an array": (
        lambda: nm.jit(lambda x: [1.0] * x)(X),
        DtypeError,
        "multiply requires .*got a list of 1",
        r"np\.array",
    ),
    "an array times a list": (lambda: nnp.ones(2) * [1.0, 2.0], DtypeError, "multiply requires .*got a list of 2", r"np\.array"),
    "a division by a tuple": (
        lambda: nm.jit(lambda x: x / (1.0, 2.0))(X),
        DtypeError,
        "divide requires .*a tuple of 2",
        r"np\.array",
    ),
    "a batch with a list of labels": (
        lambda: nm.SumOperator(lambda w, a, b: nnp.sum(a @ w - b), X, [(np.ones((2, 3)), [1.0, 2.0])]).value,
        DtypeError,
        "subtract requires arrays or numbers, got a list of 2",
        r"np\.array",
    ),
    "a derivative without arguments": (lambda: nm.grad(norm)(), TraceError, "the 0 positional arguments", r"grad\(f\)\(x\)"),
    "a sparse one without arguments": (lambda: nm.sparse.jacobian(norm)(), TraceError, "the 0 positional", r"jacobian\(f\)\(x\)"),
    "a position too far": (lambda: nm.grad(norm, 2)(X), TraceError, "the 1 positional", "has one argument, at position 0; pass"),
    "a keyword that is alike": (lambda: nnp.sum(X, axes=0), TraceError, "sum requires keywords among", r"did you mean axis\?"),
    "a dtype as a shape": (lambda: nm.spec("f32"), ShapeError, "spec requires lengths that are integers", "the second argument"),
    "a shape without a length": (lambda: nm.spec((None, 4)), ShapeError, r"integers, got \(None, 4\)", "for each size, pad"),
    "a tree without a key": (
        lambda: nm.jax.tree.map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 3}),
        TreeError,
        "tree_map requires the structure of the first tree",
        r"it lacks \['b'\]; it has \['c'\], which the first tree lacks",
    ),
    "a derivative by an integer": (lambda: nm.grad(norm)(3), DtypeError, r"got int32 at argument \[0\]", "write 3.0"),
    "no return": (lambda: nm.grad(lambda x: None)(3.0), ShapeError, "got NoneType", "add a return"),
    "a derivative of a vector": (lambda: nm.grad(lambda x: x**2)(X), ShapeError, r"got shape \(3,\)", r"vmap\(grad\(f\)\)"),
    "arrays that are no list": (lambda: nnp.concatenate(nnp.ones(3), nnp.ones(3)), ShapeError, "integer as axis", "one list"),
    "an axis by its name": (lambda: nnp.sum(nnp.ones(3), axis="x"), ShapeError, "integer as axis, got 'x'", "from 0"),
    "a traced shape": (lambda: nm.jit(lambda n: nnp.zeros(n))(3), ShapeError, r"got Tensor\(int32\[\]\)", "static_argnums"),
    "a shape of two arguments": (lambda: nnp.ones(2, 3), DtypeError, "got 3", r"ones\(\(2, 3\)\)"),
    "a step of one argument": (
        lambda: nm.scan(lambda u: u, X, length=3),
        TraceError,
        r"scan requires a function of \(carry, x\), got one of \(u\)",
        "",
    ),
    "a step without results": (lambda: nm.scan(lambda u, _: u, X, length=3), TreeError, "got Tensor", r"\(carry, None\)"),
    "a body of one argument": (
        lambda: nm.fori_loop(0, 3, lambda u: u, X),
        TraceError,
        r"fori_loop requires a function of \(i, val\), got one of \(u\)",
        "",
    ),
    "a body with exchanged arguments": (
        lambda: nm.fori_loop(0, 3, lambda u, i: u, X),
        TreeError,
        r"the carry of fori_loop \(i, val\) requires .* got \(int32\[\], int32\[\]\)",
        "",
    ),
    "a condition without arguments": (
        lambda: nm.while_loop(lambda: True, lambda u: u, X),
        TraceError,
        r"while_loop requires a function of \(val\), got one of \(\)",
        "",
    ),
    "a map of a list": (lambda: nm.vmap(norm)([1.0, 2.0]), ShapeError, r"x\[0\] of shape \(\)", r"np\.array"),
    "no transposed solver": (
        lambda: nm.grad(lambda u: nnp.sum(nm.custom_linear_solve(lambda v: v * 2, u, lambda mv, b: b / 2)))(X),
        NotImplementedError,
        "it has no solver of the transposed system",
        "transpose_solve",
    ),
    "a keyword of PyTorch": (lambda: nnp.sum(X, dim=0), TraceError, "keywords among a, axis, .*, got dim", "axis in NumPy"),
    "an unknown keyword": (
        lambda: nm.nn.softmax(X, axs=0),
        TraceError,
        "softmax requires keywords among x, axis, where, got axs",
        "",
    ),
    "batches that are one batch": (
        lambda: nm.SumOperator(lambda w, a, b: norm(a @ w - b), X, (np.eye(3), X), reduction="sum"),
        TraceError,
        r"a sum over batches requires a function of \(x, array 0\), got one of \(w, a, b\)",
        r"\[\(rows, labels\)",
    ),
    "a transform called at once": (
        lambda: nm.grad(norm, 1.0),
        TraceError,
        "requires integers as argnums, got 1.0",
        r"grad\(f\)\(x\)",
    ),
    "a Hessian at once": (lambda: nm.hessian(norm, X), TraceError, "hessian requires integers as argnums", r"hessian\(f\)\(x\)"),
    "a map at once": (lambda: nm.vmap(norm, X), TreeError, "requires ints and None as in_axes, got ndarray", r"vmap\(f\)\(x\)"),
    "a method that is not called": (lambda: nm.grad(lambda x: x.sum)(X), ShapeError, "got method", r"x\.sum\(\)"),
    "an object of arrays": (lambda: nm.grad(lambda m: m.run())(Leaves()), DtypeError, "got Leaves", "register_pytree_node"),
    "a function of JAX": (
        lambda: nm.grad(lambda x: jax.numpy.sin(x))(1.0),
        ConcretizationError,
        "a function of JAX requires arrays of JAX, got a tensor that nabla_mlir traces",
        "from_jax",
    ),
    "a derivative of JAX": (
        lambda: jax.grad(lambda x: nnp.sin(x))(1.0),
        TypeError,
        "got LinearizeTracer",
        r"interop\.jax\.function",
    ),
    "an operator of None": (lambda: nm.HessianOperator(norm, X) @ None, TreeError, "got None", ""),
    "an operator of a number": (
        lambda: nm.HessianOperator(3, X),
        TraceError,
        "requires a function, a stage or an artifact, got int",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_with_a_remedy(name: str) -> None:
    run, kind, message, remedy = CASES[name]
    with pytest.raises(kind, match=message) as caught:
        run()
    assert "test_first_mistakes.py" in str(caught.value)
    if remedy:
        assert caught.match(f"help: .*{remedy}")


@pytest.mark.parametrize(
    "who",
    [
        "grad",
        "value_and_grad",
        "jacfwd",
        "jacrev",
        "hessian",
        "hvp",
        "vmap",
        "jit",
        "trace",
        "checkpoint",
        "hessian_diagonal",
        "laplacian",
        "custom_jvp",
        "custom_vjp",
        "eval_shape",
        "linearize",
        "vjp",
    ],
)
@pytest.mark.parametrize("value", [3, norm(X)], ids=["number", "array"])
def test_a_transform_refuses_what_is_no_function(who: str, value: Any) -> None:
    with pytest.raises(
        TraceError, match=rf"{who} requires a function, got (int 3|an array of shape \(\))(.|\n)*rather than f\(x\)"
    ):
        getattr(nm, who)(value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nm.jvp(3, (X,), (X,)),
        lambda: nm.scan(3, 0.0, X),
        lambda: nm.map(3, X),
        lambda: nm.cond(True, 1.0, 2.0),
        lambda: nm.while_loop(3, lambda s: s, 1.0),
        lambda: nm.fori_loop(0, 3, 4, 1.0),
        lambda: nm.sparse.jacobian(3),
    ],
)
def test_control_flow_refuses_what_is_no_function(call: Callable[[], Any]) -> None:
    with pytest.raises(TraceError, match=r"requires a function, got (int|float)"):
        call()


def test_composites_of_operators_compute_as_those_of_scipy() -> None:
    h, j, eye = H.to_dense(), J.to_dense(), aslinearoperator(np.eye(3))
    for got, wanted in (
        (2 * H, 2 * h),
        (H * 2 - eye, 2 * h - np.eye(3)),
        (-H / 4, -h / 4),
        (H**2 + H, h @ h + h),
        (J @ H, j @ h),
        ((J @ H).T, (j @ h).T),
        (2 * (J.T @ J).H, 2 * j.T @ j),
    ):
        vectors = np.arange(2.0 * got.shape[1]).reshape(-1, 2)
        np.testing.assert_allclose(got @ vectors, wanted @ vectors, rtol=1e-12)
        np.testing.assert_allclose(np.ones(got.shape[0]) @ got, np.ones(got.shape[0]) @ wanted, rtol=1e-12)
    tree = nm.HessianOperator(lambda p: nnp.sum(p["a"] ** 2), {"a": X})
    np.testing.assert_array_equal((3 * tree @ {"a": X})["a"], 6 * X)


@pytest.mark.parametrize(
    "transform",
    [
        lambda: nm.grad(in_buffer)(X, np.zeros(3)),
        lambda: nm.jit(nm.grad(in_buffer))(X, np.zeros(3)),
        lambda: nm.grad(lambda x, b: in_buffer(x, b.copy()))(X, np.zeros(3)),
        lambda: nm.grad(lambda x, b: in_buffer(x, nnp.array(b, copy=True)))(X, np.zeros(3)),
        lambda: nm.jacrev(in_buffer)(X, np.zeros(3)),
        lambda: nm.jacfwd(in_buffer)(X, np.zeros(3)),
        lambda: nm.vmap(nm.grad(in_buffer), in_axes=(0, None))(X[None], np.zeros(3))[0],
    ],
)
def test_a_function_may_write_to_an_argument_that_is_not_differentiated(transform: Callable[[], Any]) -> None:
    np.testing.assert_allclose(transform(), np.sin(2.0) * np.ones(3), rtol=1e-12)


def test_second_derivatives_of_a_function_that_writes_to_an_argument() -> None:
    buffer = np.zeros(3)
    wanted = 2.0 * np.cos(2.0)
    np.testing.assert_allclose(nm.hvp(in_buffer)(X, X, buffer), wanted * np.ones(3), rtol=1e-12)
    np.testing.assert_allclose(nm.hessian(in_buffer)(X, buffer), wanted * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(nm.HessianOperator(in_buffer, X, buffer) @ X, wanted * np.ones(3), rtol=1e-12)
    np.testing.assert_allclose(nm.vmap(in_buffer, in_axes=(0, None))(np.ones((2, 3)), buffer), 3 * np.sin(1.0) ** 2 * np.ones(2))
    assert not buffer.any()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: nm.root, r"module 'nabla_mlir' has no attribute 'root'; nm\.interop\.scipy\.root exists"),
        (lambda: nm.sin, r"nm\.numpy\.sin and nm\.jax\.lax\.sin exist"),
        (lambda: nm.stats, r"nm\.jax\.scipy\.stats exists"),
        (lambda: nm.gradient, r"nm\.grad\(f\)\(x\)"),
        (lambda: nnp.gammaln, r"module 'nabla_mlir\.numpy' .* nm\.jax\.scipy\.special\.gammaln exists"),
        (lambda: nm.nn.Linear, r"whose weights are arguments"),
        (lambda: nm.random.randn, r"nm\.random\.normal\(key, shape\)"),
        (lambda: nm.interop.nothing, r"module 'nabla_mlir\.interop' has no attribute 'nothing'$"),
        (lambda: nnp.sinn, r"has no attribute 'sinn'; did you mean sin\?$"),
        (lambda: nm.sparse.jac, r"did you mean jacobian or jacobian_pattern\?$"),
        (lambda: nm.nn.Conv2d, r"; nm\.nn\.conv\(x, kernel\)"),
        (lambda: nm.Adam, r"; nm\.jax\.install\(\) makes optax work"),
        (lambda: nnp.ones(2).exp(), r"'Array' object has no attribute 'exp'; nm\.numpy\.exp"),
        (lambda: nm.trace(norm, X).save("f"), r"'Traced' object has no attribute 'save'; save_mlir"),
        (lambda: nm.grad(lambda x: x.detach())(1.0), r"'Tensor' object has no attribute 'detach'; nm\.stop_gradient"),
    ],
)
def test_a_missing_name_says_where_it_is(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(AttributeError, match=message) as caught:
        use()
    assert caught.value.name is not None  # by which Python finds names that are alike


@pytest.mark.parametrize("run", [lambda f: nm.grad(f)([1.0, 2.0]), lambda f: nm.jit(f)([1.0, 2.0])], ids=["grad", "jit"])
def test_operators_on_lists_of_numbers_get_advice(run: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        run(lambda x: x**2)
    assert any("a list of numbers" in note and "np.array([1.0, 2.0])" in note for note in caught.value.__notes__)
    for mistake in (
        lambda: nm.HessianOperator(lambda x: x**2, [1.0, 2.0]),
        lambda: run(lambda x: x + nnp.ones(2)),
        lambda: nm.jit(lambda a: a @ np.ones(2))([[1.0, 2.0], [3.0, 4.0]]),
    ):
        with pytest.raises(TypeError) as caught:
            mistake()
        assert any("a list of numbers" in note for note in caught.value.__notes__)


def test_missing_arguments_get_advice() -> None:
    for mistake, note in (
        (lambda: nm.trace(norm), "the function got 0 arguments: pass an array"),
        (lambda: nm.grad(norm)(None), "argument 0 is None"),
    ):
        with pytest.raises(TypeError) as caught:
            mistake()
        assert any(note in text for text in caught.value.__notes__)


def test_an_integer_repeats_a_list() -> None:
    assert [0] * nnp.asarray(3) == nnp.asarray(3) * [0] == [0, 0, 0]


def helper(x: Any) -> Any:
    return x.detach()


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        (lambda: nm.grad(norm)(3), ["grad_f"]),
        (lambda: nm.grad(nm.vmap(helper))(X), ["grad_f", "helper"]),
        (lambda: nm.jit(nm.vmap(lambda x: helper(1 / 0)))(X), ["<lambda>"]),
        (lambda: nm.jit(lambda x: norm(np.sin(x)))(X), ["<lambda>"]),
    ],
)
def test_a_traceback_shows_the_functions_of_the_user(
    call: Callable[[], Any], functions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def frames() -> list[str]:
        with pytest.raises(Exception) as caught:
            call()
        return [entry.name for entry in caught.traceback][2:]

    monkeypatch.delenv("NABLA_MLIR_TRACEBACK")
    short = frames()
    monkeypatch.setenv("NABLA_MLIR_TRACEBACK", "full")
    assert [name for name in short if name != "__call__"] == functions
    assert len(frames()) > len(short) + 2


def test_an_error_of_the_package_itself_has_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NABLA_MLIR_TRACEBACK")
    monkeypatch.setattr("nabla_mlir.transforms.gradients.differentiable", None)
    with pytest.raises(TypeError) as caught:
        nm.grad(norm)(X)
    assert "_value_and_grad" in [entry.name for entry in caught.traceback]


def test_an_error_of_ones_own_rule_has_the_line_of_the_rule() -> None:
    def partial(t: Any, y: Any, x: Any) -> Any:
        return t * np.sin(x)  # a function of NumPy

    op = elementwise(
        "example.own_rule",
        doc="x.",
        partials=[partial],
        instructions=1,
        numpy=lambda x: x,
        sample=(reals(-1, 1),),
        result=lambda x: [(x.shape, x.dtype)],
    )
    with pytest.raises(
        ConcretizationError, match=r"in partial(.|\n)*a rule of example\.own_rule failed, which is used at .*:\d+"
    ) as caught:
        nm.grad(lambda x: op(x).sum())(X)
    assert "a rule calls operators and operations" in str(caught.value)


def test_save_refuses_another_ending(tmp_path: Path) -> None:
    module = nm.trace(norm, nm.spec(3), name="norm").lower().compile()
    with pytest.raises(DeployError, match=r"save requires a path that ends in \.vmfb, \.zip or /, got '.*x\.txt'"):
        module.save(tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


def test_a_word_for_an_approximate_hessian() -> None:
    found = nm.minimize(lambda x: nnp.sum((x - 1.0) ** 2), np.zeros(2), method="trust-constr", hess="update")
    np.testing.assert_allclose(found.x, np.ones(2), atol=1e-4)


def test_a_line_that_traces_again_and_again_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "REPEATED_TRACES", 3)
    monkeypatch.setattr(thresholds, "TRACING_SECONDS", 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            nm.grad(norm)(X)
    (hint,) = [w for w in caught if w.category is PerformanceWarning]
    assert re.search(r"traced its function 3 times, in .* s: outside nm.jit each call is traced again", str(hint.message))
    assert hint.filename == __file__


def test_a_loop_of_python_that_is_written_out_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "OPERATIONS_OF_A_LOOP", 20)

    def f(x: Any) -> Any:
        for _ in range(15):
            x = x + nnp.sin(x)
        return nnp.sum(x)

    with pytest.warns(PerformanceWarning, match=r"made \d\d operations in one trace.*nm\.fori_loop and nm\.scan") as caught:
        nm.trace(f, nm.spec(3))
    assert caught[0].lineno == f.__code__.co_firstlineno + 2

    def lap(x: Any) -> Any:
        return nnp.roll(x, 1) - 2 * x + nnp.roll(x, -1)

    def endless(x: Any) -> Any:  # the warning comes while it is traced
        while True:
            x = x + lap(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PerformanceWarning, match="a loop of Python around this line"):
            nm.trace(endless, nm.spec(3))
    with pytest.warns(PerformanceWarning) as caught:
        nm.trace(lambda x: [x := x + lap(x) for _ in range(20)][-1], nm.spec(3))
    assert "lap(x) for" in Path(__file__).read_text().splitlines()[caught[0].lineno - 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.trace(lambda x: nm.scan(lambda u, _: (u + lap(u), None), x, None, length=30, unroll=30)[0], nm.spec(3))
        nm.trace(lambda x: nm.fori_loop(0, 15, lambda i, c: c + nnp.sin(c), x), nm.spec(3))


def test_a_function_of_the_library_is_no_loop_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hundreds of operations have the user's line, as all of the library have; a loop in the user's own rule is one."""
    monkeypatch.setattr(thresholds, "OPERATIONS_OF_A_LOOP", 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.trace(nm.grad(lambda x: special.gammainc(2.0, x)), nm.spec())

    @nm.custom_jvp
    def f(x: Any) -> Any:
        for _ in range(90):
            x = x + nnp.sin(x)
        return x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    with pytest.warns(PerformanceWarning, match="around this line has made") as caught:
        nm.trace(nm.grad(f), nm.spec())
    assert caught[0].lineno == f.fun.__code__.co_firstlineno + 3


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({absent!r}):
            raise ModuleNotFoundError("absent", name=name)
sys.meta_path.insert(0, Absent())
import nabla_mlir as nm
try:
    {use}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("absent", "use", "message"),
    [
        ("scipy", "nm.HessianOperator", "nm.HessianOperator requires SciPy, got an environment without it: pip install scipy."),
        ("scipy", "nm.interop.scipy", "nm.interop.scipy requires SciPy, got an environment without it: pip install scipy."),
        (
            "iree.compiler",
            "nm.grad",
            "nm.grad requires the compiler, got an installation of the runtime alone (no iree.compiler): ",
        ),
        (
            "optree",
            "from nabla_mlir.tools.main import main; main(['compile', 'm.py:f', '--spec', 'f32[3]'])",
            "nabla-mlir: error: ModuleNotFoundError: this command requires the compiler, got an installation of the runtime alone (no optree)",
        ),
        (
            "optree",
            "import nabla_mlir.numpy as nnp",
            "nabla_mlir.numpy requires the compiler, got an installation of the runtime alone ",
        ),
    ],
)
def test_a_missing_package_is_named_with_a_remedy(absent: str, use: str, message: str) -> None:
    program = WITHOUT.format(absent=absent, use=use)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (done.stdout or done.stderr).startswith(message)
