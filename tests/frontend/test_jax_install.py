"""The mirror under the name `jax` (`nabla_mlir.jax.install`), and the names that packages of JAX use at import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.jax as jax
import nabla_mlir.jax.numpy as jnp
from nabla_mlir.base.errors import RuleMissingError, ShapeError, TargetError, TraceError
from nabla_mlir.jax import sharding as sh
from nabla_mlir.jax.example_libraries import optimizers, stax
from nabla_mlir.jax.experimental import checkify, hijax, layout, sparse
from nabla_mlir.jax.extend import linear_util, source_info_util
from nabla_mlir.jax.extend.core import Primitive, jaxpr_as_fun, mapped_aval, primitives, unmapped_aval
from nabla_mlir.jax.interpreters import ad, batching, mlir, partial_eval


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_install_gives_the_mirror_itself() -> None:
    done = _run("""
import sys, nabla_mlir.jax
assert "jax" not in sys.modules
nabla_mlir.jax.install()
nabla_mlir.jax.install()
import jax, jax.numpy as jnp, jax.extend.core, jax.scipy.stats.norm as norm
from jax.experimental import sparse
assert jax is nabla_mlir.jax and jnp is nabla_mlir.jax.numpy and jax.__version__.count(".") == 2
assert nabla_mlir.jax.numpy.__spec__.name == "nabla_mlir.jax.numpy"
assert abs(float(norm.logpdf(0.0)) + 0.9189385) < 1e-6 and jax.scipy.stats.norm is norm
try:
    import jax.no_such_module
except ModuleNotFoundError as error:
    assert "jax.no_such_module" in str(error)
else:
    raise SystemExit("imported")
print(float(jax.grad(jnp.sin)(0.0)))
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1.0"


def test_install_refuses_beside_jax() -> None:
    pytest.importorskip("jax")
    done = _run("import jax, nabla_mlir.jax; nabla_mlir.jax.install()")
    assert "install requires a process that has not imported JAX, got" in done.stderr
    assert "InstallError" in done.stderr
    assert "before the first import of jax" in done.stderr


# ---------------------------------------------------------------- places
def test_shardings_of_one_device() -> None:
    mesh = jax.make_mesh((1, 1), ("a", "b"))
    named = jax.NamedSharding(mesh, jax.P("a", None))
    single = sh.SingleDeviceSharding(jax.devices()[0])
    assert (mesh.size, mesh.shape["b"], sh.AbstractMesh().empty) == (1, 1, True)
    assert named.is_equivalent_to(single, 2)
    assert named.shard_shape((4, 2)) == (4, 2)
    assert (named.device_set, named.num_devices) == ({jax.devices()[0]}, 1)
    with mesh:
        assert sh.get_mesh() is mesh
        assert sh.get_abstract_mesh() == mesh.abstract_mesh
    assert sh.get_mesh().empty
    x = jax.device_put(np.ones(2), named)
    f = jax.jit(lambda x: jax.lax.with_sharding_constraint(2 * x, named), in_shardings=named, out_shardings=named)
    np.testing.assert_array_equal(f(x), 2 * np.ones(2))
    np.testing.assert_array_equal(jax.reshard(x, named), np.ones(2))
    with jax.set_mesh(mesh):
        total = jax.shard_map(lambda x: jax.lax.psum(x, "a") + jax.lax.axis_index("b"), in_specs=jax.P("a"), out_specs=jax.P())
        np.testing.assert_array_equal(total(np.ones(3)), np.ones(3))


def test_shardings_of_several_devices_are_refused() -> None:
    with pytest.raises(TargetError, match=r"a mesh requires one device, got axes of lengths \(2,\)"):
        jax.make_mesh((2,), ("a",))
    with pytest.raises(ShapeError, match="a mesh requires a name for each axis"):
        sh.AbstractMesh((1, 1), ("a",))
    with pytest.raises(TraceError, match="NamedSharding requires names of the axes"):
        jax.NamedSharding(jax.make_mesh((1,), ("a",)), jax.P("z"))
    with pytest.raises(TargetError, match="with_sharding_constraint requires shardings, got 3"):
        jax.lax.with_sharding_constraint(np.ones(2), 3)
    with pytest.raises(TargetError, match="requires the memory 'device', got 'pinned_host'"):
        sh.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    with pytest.raises(TraceError, match="shard_map requires a mesh, got none"):
        jax.shard_map(lambda x: x, in_specs=None, out_specs=None)
    with pytest.raises(TraceError, match="jit requires the backend 'cpu' and no compiler_options, got 'tpu'"):
        jax.jit(lambda x: x, backend="tpu")


def test_pmap_over_the_one_device() -> None:
    f = jax.pmap(lambda x, n: jax.lax.psum(x, "i") * n, axis_name="i", in_axes=(0, None), static_broadcasted_argnums=1)
    np.testing.assert_array_equal(f(np.full((1, 2), 3.0), 2), np.full((1, 2), 6.0))
    with pytest.raises(ShapeError, match="pmap requires an entry for each device, of which there is 1, got an axis of length 2"):
        jax.pmap(lambda x: x)(np.ones((2, 3)))


def test_settings() -> None:
    assert jax.config.read("jax_numpy_rank_promotion") == jax.config.jax_numpy_rank_promotion == "allow"
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), jax.transfer_guard("allow"):
        pass
    with pytest.raises(TraceError, match=r"config\.update requires a setting"), jax.numpy_dtype_promotion("strict"):
        pass
    with pytest.raises(TraceError, match=r"config\.read requires a setting"):
        jax.config.read("jax_no_such_setting")
    with pytest.raises(TraceError, match="Layout requires axes in row-major order"):
        layout.Layout((1, 0))


# ---------------------------------------------------------------- primitives
def _cubed() -> Primitive:
    """x ** 3 with wrong rules, so that one sees that they are used."""
    cube_p = Primitive("cube")
    cube_p.def_impl(lambda x, *, scale: scale * x**3)
    ad.primitive_jvps[cube_p] = lambda xs, ts, scale: (cube_p.bind(*xs, scale=scale), 10.0 * scale * xs[0] * ts[0])
    batching.primitive_batchers[cube_p] = lambda xs, dims, scale: (cube_p.bind(*xs, scale=scale) + 1.0, dims[0])
    return cube_p


@pytest.mark.parametrize("wrap", [lambda f: f, nm.jit])
def test_a_primitive_has_its_own_rules(wrap: object) -> None:
    cube_p = _cubed()
    f = lambda x: cube_p.bind(x, scale=2.0)  # noqa: E731
    x = np.array([1.0, 2.0, 3.0])
    assert float(wrap(f)(3.0)) == 54.0  # type: ignore[operator]
    assert float(wrap(nm.grad(f))(3.0)) == 60.0  # type: ignore[operator]
    assert float(wrap(nm.grad(nm.grad(f)))(3.0)) == 20.0  # type: ignore[operator]  # the derivative of the rule
    np.testing.assert_allclose(wrap(nm.vmap(f))(x), 2 * x**3 + 1)  # type: ignore[operator]
    np.testing.assert_allclose(wrap(nm.vmap(nm.grad(f)))(x), 20 * x)  # type: ignore[operator]


def test_a_primitive_without_rules_has_those_of_its_code() -> None:
    sin_p = Primitive("my_sin")
    mlir.register_lowering(sin_p, mlir.lower_fun(lambda x: nm.numpy.sin(x), multiple_results=False))
    with pytest.raises(RuleMissingError, match="my_sin requires an implementation, got none"):
        sin_p.bind(1.0)
    np.testing.assert_allclose(nm.jit(nm.grad(sin_p.bind))(1.0), np.cos(1.0), rtol=1e-6)
    with pytest.raises(RuleMissingError, match="emit_python_callback requires JAX's compiler"):
        mlir.emit_python_callback()
    with pytest.raises(RuleMissingError, match="trace_to_jaxpr_nounits requires a tracer"):
        partial_eval.trace_to_jaxpr_nounits()
    assert partial_eval.PartialVal.known(1).is_known()
    assert not partial_eval.PartialVal.unknown(nm.spec()).is_known()


def test_rules_of_linear_and_vectorized_primitives() -> None:
    twice_p, pair_p = Primitive("twice"), Primitive("pair")
    twice_p.def_impl(lambda x: 2.0 * x)
    ad.deflinear(twice_p, lambda ct: [2.0 * ct])
    batching.defvectorized(twice_p)
    assert float(nm.grad(twice_p.bind)(1.0)) == 2.0
    np.testing.assert_array_equal(nm.vmap(twice_p.bind, in_axes=1)(np.ones((2, 3))), np.full((3, 2), 2.0))
    pair_p.multiple_results = True
    pair_p.def_impl(lambda x, y: [x * y, x])
    ad.primitive_jvps[pair_p] = lambda xs, ts: (
        pair_p.bind(*xs),
        [ad.instantiate_zeros(ts[0]) * xs[1] + ad.instantiate_zeros(ts[1]) * xs[0], ad.Zero.from_primal_value(xs[0])],
    )
    out, tangent = nm.jvp(lambda x: pair_p.bind(x, 3.0), (2.0,), (1.0,))
    assert [float(v) for v in (*out, *tangent)] == [6.0, 2.0, 3.0, 0.0]
    times_p = Primitive("times")
    times_p.def_impl(lambda x, y: x * y)
    ad.defjvp(times_p, lambda t, x, y: t * y, lambda t, x, y: x * t)
    batching.defbroadcasting(times_p)
    assert [float(v) for v in nm.grad(times_p.bind, (0, 1))(2.0, 3.0)] == [3.0, 2.0]
    np.testing.assert_array_equal(
        nm.vmap(times_p.bind, (0, None))(np.arange(3.0), np.ones(2)), np.arange(3.0)[:, None] * np.ones(2)
    )
    assert not ad.is_undefined_primal(1.0)
    assert ad.is_undefined_primal(ad.UndefinedPrimal(nm.spec()))


def test_operations_are_primitives() -> None:
    assert float(jax.lax.add_p.bind(1.0, 2.0)) == 3.0
    assert primitives.add_p is jax.lax.add_p
    with pytest.raises(RuleMissingError, match="while requires an implementation"):
        primitives.while_p.bind(1.0)
    with pytest.raises(AttributeError, match="no attribute 'nothing_p'"):
        primitives.nothing_p  # noqa: B018


# ---------------------------------------------------------------- traced functions
def test_equations_are_a_view_of_the_ir() -> None:
    closed = jax.make_jaxpr(lambda x, y: jnp.exp(x) * 2.0 + y)(1.0, np.float32(2))
    assert [str(e.primitive) for e in closed.eqns] == ["exp", "mul", "add"]
    assert closed.eqns[0].primitive is jax.lax.exp_p
    assert closed.eqns[0].invars == closed.jaxpr.invars[:1]
    assert closed.eqns[-1].outvars == closed.jaxpr.outvars
    assert any(isinstance(v, jax.extend.core.Literal) and float(v.val) == 2.0 for v in closed.eqns[1].invars)
    assert [a.shape for a in closed.in_avals] == [(), ()]
    np.testing.assert_allclose(jaxpr_as_fun(closed)(1.0, 3.0)[0], np.exp(1.0) * 2 + 3, rtol=1e-6)
    _, shapes = jax.make_jaxpr(lambda x: {"y": x + 1}, return_shape=True)(np.ones((2, 3), np.float32))
    assert shapes["y"].shape == (2, 3)


def test_values_of_the_trace_are_constants_of_a_jaxpr() -> None:
    def f(a: object) -> object:
        closed = jax.make_jaxpr(lambda x: a * x)(1.0)  # type: ignore[operator]
        assert len(closed.consts) == 1
        return jax.core.eval_jaxpr(closed.jaxpr, [2 * c for c in closed.consts], 3.0)[0]

    assert float(nm.jit(f)(5.0)) == 30.0
    assert float(nm.grad(f)(5.0)) == 6.0


def test_types() -> None:
    aval = jax.core.get_aval(np.ones((2, 3), np.float32))
    assert isinstance(aval, jax.core.ShapedArray)
    assert isinstance(aval, jax.core.AbstractValue)
    assert (aval.ndim, aval.size, len(aval), aval.weak_type, aval.sharding) == (2, 6, 2, False, None)
    assert aval.update(shape=(4,)).shape == (4,)
    assert nm.spec(2, "i32").to_tangent_aval().dtype == jax.float0
    assert mapped_aval(2, 0, aval).shape == (3,)
    assert unmapped_aval(4, 1, aval).shape == (2, 4, 3)
    assert jax.ShapeDtypeStruct((), np.float32, weak_type=True).weak_type
    assert jax.core.get_opaque_trace_state() == jax.core.get_opaque_trace_state()
    assert not jax.jit(lambda x: x * jax.core.trace_state_clean())(1.0)
    with pytest.raises(TraceError, match="update requires shape, dtype or weak_type, got memory"):
        aval.update(memory=1)
    for refused in (jax.core.Trace, jax.core.TraceTag, jax.core.take_current_trace, lambda: jax.core.set_current_trace(None)):
        with pytest.raises(TraceError, match="requires JAX's interpreters of primitives"):
            refused()
    for refused in (jax.Ref, lambda: jax.new_ref(1.0)):
        with pytest.raises(TraceError, match="requires mutable arrays"):
            refused()
    for refused in (hijax.HiType, lambda: hijax.HiPrimitive("p").bind()):
        with pytest.raises(TraceError, match="requires types that are no arrays"):
            refused()


def test_keys_are_arrays_and_leaves() -> None:
    key = jax.random.key(0)
    assert isinstance(key, jax.Array)
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert jnp.issubdtype(key.dtype, jax.dtypes.extended)
    assert not jnp.issubdtype(np.float32, jax.dtypes.prng_key)
    assert not jnp.issubdtype(key.dtype, np.floating)
    assert len(jax.tree.leaves({"k": key, "x": 1})) == 2
    assert jax.tree.map(lambda x: x.shape, {"k": key}) == {"k": ()}
    assert jax.device_put(key).shape == ()


def test_trees_leave_foreign_leaves_as_they_are() -> None:
    class Foreign:
        def __dlpack__(self) -> object:
            raise AssertionError("read")

    x = Foreign()
    assert jax.tree.leaves([x]) == [x]
    assert jax.tree.map(lambda a, b: (a, b), x, x) == (x, x)
    assert jax.tree_util.default_registry.flatten_one_level({"a": 1}) is not None
    assert jax.tree_util.default_registry.flatten_one_level(3) is None


# ---------------------------------------------------------------- functions with transformations
def test_linear_util_and_api_util() -> None:
    tree = jax.tree.structure(((0, 0), {"k": 0}))
    flat, out_tree = jax.api_util.flatten_fun(linear_util.wrap_init(lambda x, y, k: {"sum": x + y + k}), tree)
    with pytest.raises(TraceError, match="requires a call of it, got none yet"):
        out_tree()
    assert flat.call_wrapped(1, 2, 3) == [6]
    assert jax.tree.unflatten(out_tree(), [6]) == {"sum": 6}
    flat, out_tree = jax.api_util.flatten_fun_nokwargs(linear_util.wrap_init(lambda x: (x, x)), jax.tree.structure((0,)))
    assert flat.call_wrapped(4) == [4, 4]
    assert jax.api_util.flatten_axes("axes", jax.tree.structure(((0, 0), {"k": 0})), (1, None), kws=False) == [1, 1, None]


def test_excluded_files_are_not_the_users_line() -> None:
    before = nm.errors.user_frame()
    assert before is not None
    assert before.filename == __file__
    source_info_util.register_exclusion(__file__)
    try:
        after = nm.errors.user_frame()
        assert after is None or after.filename != __file__
    finally:
        nm.errors.EXCLUDED.clear()
        nm.errors.is_internal.cache_clear()


# ---------------------------------------------------------------- checkify, sparse, example_libraries
def test_checkify() -> None:
    def f(x: object) -> object:
        checkify.check(x > 0, "{x} is not positive", x=x)  # type: ignore[operator]
        checkify.debug_check(x < 10, "large")  # type: ignore[operator]
        return x

    checked = checkify.checkify(f)
    assert checked(1.0)[0].get() is None
    assert nm.jit(checked)(-1.0)[0].get() == "-1.0 is not positive"
    assert nm.jit(checked)(11.0)[0].get() == "large"
    error, _ = nm.jit(checked)(11.0)
    for raise_it in (error.throw, lambda: checkify.check_error(error), lambda: f(-1.0)):
        with pytest.raises(checkify.JaxRuntimeError):
            raise_it()
    with pytest.raises(TraceError, match="check requires checkify directly around the traced code"):
        nm.jit(f)(1.0)
    with pytest.raises(TraceError, match="check requires checkify directly around the traced code"):
        checkify.checkify(nm.vmap(f))(np.ones(2))
    with pytest.raises(TraceError, match="checkify requires errors=user_checks, got NaNError"):
        checkify.checkify(f, errors=checkify.user_checks | checkify.nan_checks)
    outer = checkify.checkify(lambda x: checkify.check_error(checked(x)[0]))
    assert outer(-2.0)[0].get() == "-2.0 is not positive"


def test_sparse_arrays() -> None:
    dense = np.array([[0.0, 5.0, 0.0], [1.0, 0.0, 2.0]])
    m = sparse.BCOO.fromdense(dense)
    b, v = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    assert (m.nse, m.shape, m.size, m.ndim) == (3, (2, 3), 6, 2)
    np.testing.assert_array_equal(m.todense(), dense)
    np.testing.assert_array_equal(m @ b, dense @ b)
    np.testing.assert_array_equal(nm.jit(lambda m, v: m @ v)(m, v), dense @ v)
    np.testing.assert_array_equal(np.ones(2) @ m, np.ones(2) @ dense)
    np.testing.assert_array_equal(sparse.todense(-(m * 2).T), -2 * dense.T)
    np.testing.assert_array_equal((m * b.T).todense(), dense * b.T)
    assert float(m.sum()) == 8.0
    np.testing.assert_array_equal(sparse.bcoo_todense(sparse.bcoo_fromdense(dense, nse=5)), dense)
    np.testing.assert_array_equal(
        nm.grad(lambda d: (sparse.BCOO((d, m.indices), shape=m.shape) @ v).sum())(m.data), [1.0, 0.0, 2.0]
    )
    batch = sparse.BCOO((np.ones((2, 1)), np.array([[[0]], [[1]]])), shape=(2, 2))
    np.testing.assert_array_equal(batch.todense(), np.eye(2))
    with pytest.raises(ShapeError, match="a product requires a sparse array without batch and dense axes, got 1 and 0"):
        batch @ np.ones(2)
    with pytest.raises(ShapeError, match="BCOO requires values"):
        sparse.BCOO((np.ones(2), np.zeros((3, 1), int)), shape=(4,))
    with pytest.raises(ShapeError, match="bcoo_fromdense requires n_batch=0"):
        sparse.bcoo_fromdense(dense, n_batch=1)


MAKERS: dict[str, tuple[float, ...]] = {
    "sgd": (0.1,),
    "momentum": (0.05, 0.5),
    "nesterov": (0.05, 0.5),
    "adagrad": (0.5,),
    "rmsprop": (0.05,),
    "rmsprop_momentum": (0.02,),
    "adam": (0.1,),
    "adamax": (0.1,),
    "sm3": (0.5,),
}


def test_optimizers_take_the_steps_of_jax() -> None:
    theirs = pytest.importorskip("jax.example_libraries.optimizers")
    target = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
    for name, args in MAKERS.items():
        found = []
        for library in (optimizers, theirs):
            init, update, params = getattr(library, name)(*args)
            state = init({"x": np.zeros((2, 2), np.float32)})
            for i in range(3):
                state = update(i, {"x": np.asarray(params(state)["x"]) - target}, state)
            found.append(np.asarray(params(state)["x"]))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6, err_msg=name)


def test_schedules_and_norms() -> None:
    assert float(optimizers.exponential_decay(1.0, 2, 0.5)(4)) == 0.25
    assert float(optimizers.inverse_time_decay(1.0, 2, 1.0)(4)) == pytest.approx(1 / 3)
    assert float(optimizers.polynomial_decay(1.0, 10, 0.1)(20)) == pytest.approx(0.1)
    assert [float(optimizers.piecewise_constant([2, 4], [1.0, 0.5, 0.25])(i)) for i in (0, 3, 5)] == [1.0, 0.5, 0.25]
    assert float(optimizers.l2_norm(optimizers.clip_grads([3.0, 4.0], 1.0))) == pytest.approx(1.0)


def test_layers() -> None:
    init, apply = stax.serial(
        stax.Dense(4), stax.Tanh, stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat(), stax.Softmax
    )
    shape, params = init(nm.random.key(0), (5, 2))
    out = nm.jit(apply)(params, np.ones((5, 2), np.float32))
    assert shape == out.shape == (5, 7)
    np.testing.assert_allclose(np.asarray(out).sum(-1), np.ones(5), rtol=1e-6)
    _, drop = stax.Dropout(0.5)
    kept = np.asarray(drop((), np.ones(1000), rng=nm.random.key(1)))
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert 0.8 < kept.mean() < 1.2
