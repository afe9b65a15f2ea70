"""Every error of the front end: its class, its sentence, the user's own line, and what to do.

A case raises on its line marked `# here`.
"""

import inspect
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import errors
from nabla_mlir.jax.scipy import special
from nabla_mlir.table.registry import REGISTRY
from nabla_mlir.table.rules import UNSUPPORTED

CASES = {}
x, a = nm.spec(3), nm.spec((2, 3))
leak = SimpleNamespace()


def case(error, message, *bases, help=""):
    def register(f):
        assert f.__name__ not in CASES
        CASES[f.__name__] = (f, error, message, bases, help)
        return f

    return register


# ---------------------------------------------------------------- shapes and dtypes


@case(errors.ShapeError, r"add requires .*\(3,\).*\(2,\)", ValueError, TypeError)
def shapes_that_do_not_broadcast():
    def f(x):
        y = x[:2]
        return x + y  # here

    nm.trace(f, x)


@case(errors.ShapeError, r"matmul requires .*\(2, 3\).*\(2, 3\)", ValueError)
def shapes_of_a_product():
    nm.trace(lambda a: a @ a, a)  # here


@case(errors.ShapeError, r"reshape requires .*\(4, 4\)", ValueError)
def shape_of_a_reshape():
    nm.trace(lambda a: nnp.reshape(a, (4, 4)), a)  # here


@case(errors.DtypeError, r"bitwise_and requires .*float32", TypeError)
def dtype_of_a_logical_operation():
    nm.trace(lambda x: x & x, x)  # here


@case(errors.ShapeError, r"spec requires lengths that are not negative, got \(-1,\)\.")
def a_negative_length():
    nm.spec(-1)  # here


# ---------------------------------------------------------------- gradients


@case(errors.ShapeError, r"grad requires a scalar result, got shape \(3,\)\.", help="sum")
def grad_of_a_vector():
    def f(x):
        return x * 2.0

    nm.trace(nm.grad(f), x)  # here


@case(errors.ShapeError, r"grad requires a function with one scalar result, got tuple\.", help="has_aux")
def grad_of_a_pair():
    nm.trace(nm.grad(lambda x: (nnp.sum(x), x)), x)  # here


@case(errors.TreeError, r"has_aux requires that the function returns \(value, aux\), got Tensor")
def aux_that_is_not_there():
    nm.trace(nm.grad(lambda x: nnp.sum(x), has_aux=True), x)  # here


@case(errors.DtypeError, r"grad requires arguments of floating point, got int32 at argument \[0\]", TypeError, help="argnums")
def grad_of_integers():
    nm.trace(nm.grad(lambda k: nnp.sum(k)), nm.spec(3, "i32"))  # here


@case(errors.DtypeError, r"got int32 at argument \[0\]\['k'\]")
def grad_of_a_tree_with_integers():
    nm.trace(nm.grad(lambda p: nnp.sum(p["w"])), {"w": x, "k": nm.spec(3, "i32")})  # here


@case(errors.DtypeError, r"grad requires a result of floating point, got int32\.")
def grad_of_an_integer_result():
    nm.trace(nm.grad(lambda x: nnp.sum(x.astype("int32"))), x)  # here


@case(errors.TraceError, r"grad requires argnums among the 1 positional arguments, got 1\.", help="by position")
def an_argument_that_is_not_there():
    nm.trace(nm.grad(lambda x: nnp.sum(x), argnums=1), x)  # here


@case(errors.TraceError, r"hessian requires mode fwd_rev, .*, got 'up_down'\.")
def a_mode_that_is_not_there():
    nm.hessian(lambda x: nnp.sum(x), mode="up_down")  # here


# ---------------------------------------------------------------- tangents and cotangents


@case(errors.TreeError, r"jvp requires primals and tangents as tuples of arguments, got (Array|ndarray|Tensor)")
def primals_without_a_tuple():
    nm.trace(lambda x: nm.jvp(nnp.sin, x, x), x)  # here


@case(errors.ShapeError, r"a tangent requires the shape of its primal, got \(2,\) for \(3,\) at \[0\]\.")
def shape_of_a_tangent():
    nm.trace(lambda x: nm.jvp(nnp.sin, (x,), (x[:2],)), x)  # here


@case(errors.DtypeError, r"a tangent requires the dtype of its primal, got float64 for float32", help="astype")
def dtype_of_a_tangent():
    nm.trace(lambda x: nm.jvp(nnp.sin, (x,), (x.astype("float64"),)), x)  # here


@case(errors.TreeError, r"tangents requires the structure of the primals")
def structure_of_tangents():
    nm.trace(lambda x: nm.jvp(lambda p: p["w"], ({"w": x},), ([x],)), x)  # here


@case(errors.TreeError, r"a cotangent requires the structure of the result")
def structure_of_a_cotangent():
    def f(x):
        _, pull = nm.vjp(lambda x: (x, x), x)
        return pull(x)  # here

    nm.trace(f, x)


@case(errors.ShapeError, r"a cotangent requires the shape of its primal, got \(\) for \(3,\)")
def shape_of_a_cotangent():
    def f(x):
        _, pull = nm.vjp(nnp.sin, x)
        return pull(nnp.sum(x))  # here

    nm.trace(f, x)


# ---------------------------------------------------------------- vmap


@case(errors.ShapeError, r"vmap requires mapped axes of one size, got rows: 2, y: 3\.", help="None in in_axes")
def sizes_of_mapped_axes():
    nm.trace(lambda a, x: nm.vmap(lambda rows, y: rows * y)(a, x), a, x)  # here


@case(errors.TreeError, r"vmap requires one entry of in_axes per positional argument, got 3 for 1\.")
def number_of_in_axes():
    nm.trace(nm.vmap(nnp.sin, in_axes=(0, 0, 0)), x)  # here


@case(errors.TreeError, r"in_axes requires a prefix of the structure .* got \(\{'q': 0\},\)\.")
def structure_of_in_axes():
    nm.trace(lambda x: nm.vmap(lambda p: p["w"], in_axes=({"q": 0},))({"w": x}), x)  # here


@case(errors.TreeError, r"in_axes requires ints and None, got 'rows' for x")
def kind_of_in_axes():
    nm.trace(nm.vmap(lambda x: x, in_axes=("rows",)), x)  # here


@case(errors.ShapeError, r"vmap requires an axis of its argument, got axis 1 for x of shape \(3,\)\.")
def an_axis_that_is_not_there():
    nm.trace(nm.vmap(lambda x: x, in_axes=1), x)  # here


@case(errors.ShapeError, r"out_axes requires an axis of a result of rank 1, got 3\.")
def a_place_that_is_not_there():
    nm.trace(nm.vmap(lambda x: x, out_axes=3), x)  # here


@case(errors.ShapeError, r"vmap requires a mapped argument or axis_size, got neither\.")
def vmap_of_nothing():
    nm.trace(nm.vmap(lambda x: x, in_axes=None), x)  # here


# ---------------------------------------------------------------- values of tensors


@case(errors.ConcretizationError, r"bool\(\) requires a concrete value, got the traced tensor Tensor\(bool\[\]\)\.", help="cond")
def the_truth_of_a_tensor():
    def f(x):
        if nnp.sum(x) > 0:  # here
            return x
        return -x

    nm.trace(f, x)


@case(errors.ConcretizationError, r"float\(\) requires a concrete value")
def the_float_of_a_tensor():
    nm.trace(lambda x: float(x[0]), x)  # here


@case(errors.ConcretizationError, r"int\(\) requires a concrete value", help="static")
def the_int_of_a_tensor():
    nm.trace(lambda x: int(x[0]), x)  # here


@case(errors.ConcretizationError, r"an index or a shape requires a concrete value", help="static")
def a_tensor_as_a_range():
    nm.trace(lambda k: [k for _ in range(k)], nm.spec((), "i32"))  # here


@case(errors.ConcretizationError, r"a NumPy function requires a concrete value", help="nabla_mlir.numpy")
def a_tensor_in_numpy():
    nm.trace(lambda x: np.asarray(x), x)  # here


@case(errors.ConcretizationError, r"item\(\) requires a concrete value")
def the_item_of_a_tensor():
    nm.trace(lambda x: x.item(), x)  # here


# ---------------------------------------------------------------- leaks


@case(errors.LeakedTracerError, r"got Tensor\(float32\[3\]\) from the trace of f, which has ended", help="return the value")
def a_leak_through_an_attribute():
    def f(x):
        leak.x = x
        return x

    nm.trace(f, x)
    nm.trace(lambda x: x + leak.x, x)  # here


@case(errors.LeakedTracerError, r"from the function given to grad, which has ended")
def a_leak_through_a_list():
    def f(x):
        stored = []

        def inner(y):
            stored.append(y * 2.0)
            return nnp.sum(y)

        nm.grad(inner)(x)
        return stored[0] + x  # here

    nm.trace(f, x)


@case(errors.LeakedTracerError, r"from the function given to vmap, which has ended")
def a_leak_as_a_result():
    def f(x):
        box = {}

        def inner(y):
            box["y"] = y
            return y

        nm.vmap(inner)(x)
        return box["y"]

    nm.trace(f, x)  # here


@case(errors.LeakedTracerError, r"from the trace of \w+, which has ended")
def a_leak_through_a_closure():
    made = []

    def f(x):
        made.append(lambda y: y * x)
        return x

    nm.trace(f, x)
    nm.trace(lambda y: made[0](y), x)


# ---------------------------------------------------------------- tracing


@case(errors.TraceError, r"an argument requires arrays, scalars or nm\.spec, got str\.", help="static")
def an_argument_that_is_text():
    nm.trace(lambda x, mode: x, x, "fast")  # here


@case(errors.TraceError, r"a traced function requires arrays as results, got str at result\['b'\]\.")
def a_result_that_is_text():
    nm.trace(lambda x: {"a": x, "b": "text"}, x)  # here


@case(errors.TraceError, r"jit requires static arguments that can be hashed, got unhashable type: 'list'")
def a_static_argument_without_a_hash():
    nm.jit(lambda x, n: x, static_argnums=1)(np.ones(3), [1])  # here


@case(errors.TraceError, r"module\(\) requires functions with one entry point")
def a_module_of_modules():
    one = nm.trace(lambda x: x, x)
    both = nm.module(a=one, b=one)
    nm.module(c=both)  # here


@case(errors.TargetError, r"compile requires a known target, got 'abacus'\.", ValueError, help="cuda")
def a_target_that_is_unknown():
    nm.trace(lambda x: x, x).lower().compile("abacus")


@case(errors.RuleMissingError, r"the derivative of chlo.polygamma requires that the order n does not vary", NotImplementedError)
def a_derivative_that_is_unknown():
    nm.trace(nm.grad(lambda n: nnp.sum(special.polygamma(n, x=n))), x).lower()


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    f, kind, message, bases, help = CASES[name]
    with pytest.raises(kind, match=message) as caught:
        f()
    error = caught.value
    assert all(isinstance(error, base) for base in bases)
    assert help in error.help
    source, first = inspect.getsourcelines(f)
    marked = [first + i for i, line in enumerate(source) if "# here" in line]
    if marked:
        assert error.where is not None
        assert (error.where.filename, error.where.line) == (__file__, marked[0])
        assert re.search(r"^ *\d+ \| .*# here\n *\| +\^", str(error), re.M), "the line is shown and underlined"


@pytest.mark.parametrize("transform", ["jvp", "vjp", "vmap"])
def test_a_rule_that_is_missing(transform, monkeypatch):
    record = replace(REGISTRY["stablehlo.sine"], partials=None, jvp=UNSUPPORTED("why"), batch=UNSUPPORTED("why"))
    monkeypatch.setitem(REGISTRY, "stablehlo.sine", record)

    def f(x):
        y = nnp.sin(x)  # here
        return nnp.sum(y)

    transforms = {"jvp": lambda x: nm.jvp(f, (x,), (x,)), "vjp": nm.grad(f), "vmap": nm.vmap(f)}
    traced = nm.trace(transforms[transform], a if transform == "vmap" else x)
    with pytest.raises(errors.RuleMissingError, match=f"{transform} requires a rule for every operation, got") as caught:
        traced.lower()
    assert "'stablehlo.sine': why" in str(caught.value)
    assert caught.value.where.filename == __file__
    assert "y = nnp.sin(x)  # here" in str(caught.value)


# ---------------------------------------------------------------- artifacts


@pytest.fixture(scope="module")
def compiled():
    def f(params, *, data):
        return params["w"] * data

    return nm.trace(f, {"w": x}, data=a).lower().compile()


W, DATA = np.ones(3, np.float32), np.ones((2, 3), np.float32)


WRONG_ARGUMENTS = [
    (errors.ShapeError, r"params\['w'\] requires float32\[3\], got float32\[2\]", ({"w": W[:2]},), {"data": DATA}),
    (errors.DtypeError, r"data requires float32\[2,3\], got float64\[2,3\]", ({"w": W},), {"data": DATA.astype("f8")}),
    (errors.TreeError, "params requires the structure", ([W],), {"data": DATA}),
    (errors.TreeError, r"f requires the arguments \(params, data\), got no data", ({"w": W},), {}),
    (errors.TreeError, "got an unknown argument other", ({"w": W},), {"data": DATA, "other": W}),
    (errors.TreeError, "got data twice", ({"w": W}, DATA), {"data": DATA}),
    (errors.TreeError, "got 3 positional arguments", ({"w": W}, DATA, DATA), {}),
]


@pytest.mark.parametrize(("error", "message", "args", "kwargs"), WRONG_ARGUMENTS)
def test_wrong_arguments_of_a_compiled_function(compiled, tmp_path, error, message, args, kwargs):
    """The same error, with the user's line, in the process that compiled it and where it is loaded."""
    for call in (compiled, compiled.f, nm.load(compiled.save(tmp_path / "f.vmfb")).f):
        with pytest.raises(error, match=message) as caught:
            call(*args, **kwargs)
        assert caught.value.where is not None
        assert caught.value.where.filename == __file__


def test_an_entry_point_that_is_not_there(compiled):
    with pytest.raises(errors.TraceError, match=r"requires a name among \['f'\], got 'g'"):
        compiled.entry("g")


def test_a_trace_goes_on_after_an_error_that_was_caught():
    def f(x):
        for broken in (lambda y: y[:2] + y, lambda y: float(y[0])):
            with pytest.raises(errors.NablaError):
                nm.grad(broken)(x)
            with pytest.raises(errors.NablaError):
                nm.vmap(nm.grad(broken))(x[None])
        return nm.grad(lambda y: nnp.sum(y * y))(x)

    np.testing.assert_allclose(nm.jit(f)(W), 2 * W)
