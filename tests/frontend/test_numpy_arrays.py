"""Creation, reductions, shapes, joining, sorting and products against NumPy: values, shapes and dtypes."""

import inspect
import types

import numpy as np
import pytest
from support import Group

from nabla_mlir.base.array_methods import ArrayMethods
from nabla_mlir.base.array_operators import ArrayOperators
from nabla_mlir.numpy import methods
from nabla_mlir.runtime.array import Array
from nabla_mlir.staging.jit import jit

rng = np.random.default_rng(1)
INPUTS = {
    "x": rng.normal(size=(3, 4)),
    "f32": rng.normal(size=(3, 4)).astype(np.float32),
    "cube": rng.normal(size=(2, 3, 4)),
    "i": rng.integers(-5, 5, (3, 4)).astype(np.int32),
    "i64": rng.integers(-5, 5, (3, 4)),
    "u8": rng.integers(0, 9, (3, 4)).astype(np.uint8),
    "b": rng.integers(0, 2, (3, 4)).astype(bool),
    "c": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
    "v": rng.normal(size=5),
    "w": rng.normal(size=4),
    "s": np.array(1.5),
    "empty": np.zeros((0, 4)),
    "unit": rng.normal(size=(1, 3, 1)),
    "nans": np.where(rng.uniform(size=(3, 4)) < 0.3, np.nan, rng.normal(size=(3, 4))),
    "ties": rng.integers(0, 3, (4, 6)) * 1.0,
    "square": rng.normal(size=(4, 4)),
    "batch": rng.normal(size=(2, 4, 3)),
    "many": rng.normal(size=(2, 1, 3, 4)),
    "three": rng.normal(size=(4, 3)),
    "t3": rng.normal(size=3),
}

CREATION = {
    "zeros": lambda xp, a: xp.zeros((2, 3)),
    "ones int": lambda xp, a: xp.ones(3, dtype=np.int32),
    "full": lambda xp, a: xp.full((2, 2), 7),
    "full float": lambda xp, a: xp.full((2,), 1.5, dtype=np.float32),
    "zeros_like": lambda xp, a: xp.zeros_like(a.i),
    "ones_like": lambda xp, a: xp.ones_like(a.f32, dtype=np.int64),
    "full_like": lambda xp, a: xp.full_like(a.f32, 2),
    "arange": lambda xp, a: xp.arange(5),
    "arange 2": lambda xp, a: xp.arange(2, 9, 3),
    "arange down": lambda xp, a: xp.arange(5, 0, -2),
    "arange float": lambda xp, a: xp.arange(0.5, 3.0, 0.5),
    "arange none": lambda xp, a: xp.arange(3, 1),
    "linspace": lambda xp, a: xp.linspace(0, 1, 7),
    "linspace open": lambda xp, a: xp.linspace(-2.0, 3.0, 5, endpoint=False),
    "linspace traced": lambda xp, a: xp.linspace(a.s, 3.0, 5),
    "eye": lambda xp, a: xp.eye(3),
    "eye k": lambda xp, a: xp.eye(3, 4, 1, dtype=np.int32),
    "identity": lambda xp, a: xp.identity(2),
    "tri": lambda xp, a: xp.tri(3, 4, -1),
    "tril": lambda xp, a: xp.tril(a.cube),
    "triu k": lambda xp, a: xp.triu(a.x, 1),
    "triu -1": lambda xp, a: xp.triu(a.square, -1),
    "diag of vector": lambda xp, a: xp.diag(a.v),
    "diag of vector k": lambda xp, a: xp.diag(a.w, 2),
    "diag of vector -1": lambda xp, a: xp.diag(a.w, -1),
    "diag": lambda xp, a: xp.diag(a.x),
    "diag 1": lambda xp, a: xp.diag(a.x, 1),
    "diag -2": lambda xp, a: xp.diag(a.x, -2),
    "diag beyond": lambda xp, a: xp.diag(a.x, 7),
    "diagonal": lambda xp, a: xp.diagonal(a.cube, 1, 2, 0),
    "diagonal batch": lambda xp, a: xp.diagonal(a.cube, axis1=1, axis2=2),
    "meshgrid": lambda xp, a: list(xp.meshgrid(a.v, a.w)),
    "meshgrid ij": lambda xp, a: list(xp.meshgrid(a.v, a.w, a.t3, indexing="ij")),
    "array": lambda xp, a: xp.array([[1, 2], [3, 4]]),
    "array floats": lambda xp, a: xp.array([1, 2.5]),
    "asarray": lambda xp, a: xp.asarray(a.f32),
}

REDUCTIONS = {}
for name in ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin"]:
    options = {"": {}, " 0": {"axis": 0}, " -1": {"axis": -1}, " 1 keep": {"axis": 1, "keepdims": True}}
    for label, kwargs in options.items():
        REDUCTIONS[f"{name}{label}"] = lambda xp, a, n=name, k=kwargs: getattr(xp, n)(a.x, **k)
for name in ["sum", "prod", "mean", "max", "min", "any", "argmax"]:
    for data in ["i", "u8", "b"]:
        if data == "b" and name in ("max", "min"):
            continue
        REDUCTIONS[f"{name} of {data}"] = lambda xp, a, n=name, d=data: getattr(xp, n)(getattr(a, d), axis=1)
for name in ["sum", "mean", "max", "std", "cumsum", "cumprod"]:
    REDUCTIONS[f"{name} of f32"] = lambda xp, a, n=name: getattr(xp, n)(a.f32, axis=1)
for name in ["sum", "mean", "prod", "var"]:
    REDUCTIONS[f"{name} of c"] = lambda xp, a, n=name: getattr(xp, n)(a.c, axis=0)
for name in ["max", "min", "argmax", "argmin", "nansum", "nanprod", "nanmean", "nanmax", "nanmin", "sum"]:
    REDUCTIONS[f"{name} of nans"] = lambda xp, a, n=name: getattr(xp, n)(a.nans, axis=0)
REDUCTIONS |= {
    "sum of two axes": lambda xp, a: xp.sum(a.cube, axis=(0, -1)),
    "sum of no axes": lambda xp, a: xp.sum(a.cube, axis=()),
    "sum keepdims": lambda xp, a: a.cube.sum(axis=(0, 2), keepdims=True),
    "sum dtype": lambda xp, a: xp.sum(a.i, dtype=np.float32),
    "sum initial": lambda xp, a: xp.sum(a.x, axis=1, initial=3.0),
    "sum where": lambda xp, a: xp.sum(a.x, axis=1, where=a.b),
    "sum of empty": lambda xp, a: xp.sum(a.empty, axis=0),
    "sum over empty": lambda xp, a: xp.sum(a.empty, axis=1),
    "prod of empty": lambda xp, a: xp.prod(a.empty),
    "mean where": lambda xp, a: xp.mean(a.x, axis=1, where=a.b | (a.x > -9)),
    "max where": lambda xp, a: xp.max(a.x, axis=1, where=a.b, initial=-5.0),
    "max of bool": lambda xp, a: xp.max(a.b, axis=0),
    "max initial": lambda xp, a: xp.max(a.empty, axis=0, initial=1.0),
    "mean of two": lambda xp, a: xp.mean(a.cube, axis=(0, 2)),
    "var ddof": lambda xp, a: xp.var(a.cube, axis=(1, 2), ddof=1),
    "std ddof": lambda xp, a: a.x.std(axis=0, ddof=1),
    "ptp": lambda xp, a: xp.ptp(a.x, axis=1),
    "count_nonzero": lambda xp, a: xp.count_nonzero(a.i, axis=0),
    "average": lambda xp, a: xp.average(a.x, axis=1, weights=xp.absolute(a.w)),
    "average all": lambda xp, a: xp.average(a.x, weights=a.x * a.x),
    "median": lambda xp, a: xp.median(a.x, axis=0),
    "median all": lambda xp, a: xp.median(a.cube),
    "median nan": lambda xp, a: xp.median(a.nans, axis=1),
    "quantile": lambda xp, a: xp.quantile(a.cube, 0.3, axis=(0, 2), keepdims=True),
    "argmax ties": lambda xp, a: xp.argmax(a.ties, axis=1),
    "argmin ties": lambda xp, a: xp.argmin(a.ties, axis=0, keepdims=True),
    "argmax flat": lambda xp, a: xp.argmax(a.cube),
    "argmax bool": lambda xp, a: xp.argmax(a.b, axis=1),
    "cumsum": lambda xp, a: xp.cumsum(a.v),
    "cumsum flat": lambda xp, a: xp.cumsum(a.x),
    "cumsum 1": lambda xp, a: a.cube.cumsum(axis=1),
    "cumsum int": lambda xp, a: xp.cumsum(a.i, axis=-1),
    "cumprod": lambda xp, a: xp.cumprod(a.cube, axis=2),
    "cumsum empty": lambda xp, a: xp.cumsum(a.empty, axis=0),
    "cumulative_sum initial": lambda xp, a: xp.cumulative_sum(a.x, axis=1, include_initial=True),
    "trace": lambda xp, a: xp.trace(a.x),
    "trace offset": lambda xp, a: xp.trace(a.cube, 1, 1, 2),
}

SHAPES = {
    "reshape": lambda xp, a: xp.reshape(a.x, (2, 6)),
    "reshape -1": lambda xp, a: a.x.reshape(-1, 2),
    "reshape scalar": lambda xp, a: a.s.reshape(1, 1),
    "reshape empty": lambda xp, a: a.empty.reshape(2, 0, 2),
    "ravel": lambda xp, a: a.x.ravel(),
    "flatten": lambda xp, a: a.cube.flatten(),
    "T": lambda xp, a: a.cube.T,
    "mT": lambda xp, a: a.cube.mT,
    "transpose": lambda xp, a: xp.transpose(a.cube, (2, 0, 1)),
    "transpose method": lambda xp, a: a.cube.transpose(1, 0, 2),
    "swapaxes": lambda xp, a: xp.swapaxes(a.cube, 0, -1),
    "moveaxis": lambda xp, a: xp.moveaxis(a.cube, 0, -1),
    "moveaxis two": lambda xp, a: xp.moveaxis(a.many, [0, 2], [-1, 1]),
    "squeeze": lambda xp, a: xp.squeeze(a.unit),
    "squeeze axis": lambda xp, a: a.unit.squeeze(axis=-1),
    "expand_dims": lambda xp, a: xp.expand_dims(a.x, 1),
    "expand_dims two": lambda xp, a: xp.expand_dims(a.x, (0, -1)),
    "broadcast_to": lambda xp, a: xp.broadcast_to(a.unit, (2, 3, 4)),
    "broadcast_arrays": lambda xp, a: list(xp.broadcast_arrays(a.unit, a.w)),
    "atleast": lambda xp, a: [xp.atleast_1d(a.s), xp.atleast_2d(a.v), xp.atleast_3d(a.v), xp.atleast_3d(a.x)],
    "flip": lambda xp, a: xp.flip(a.cube),
    "flip 1": lambda xp, a: xp.flip(a.cube, (0, -1)),
    "fliplr": lambda xp, a: xp.fliplr(a.x),
    "flipud": lambda xp, a: xp.flipud(a.x),
    "rot90": lambda xp, a: [xp.rot90(a.x, k) for k in range(4)],
    "roll": lambda xp, a: xp.roll(a.x, 2),
    "roll axis": lambda xp, a: xp.roll(a.x, -1, axis=1),
    "roll two": lambda xp, a: xp.roll(a.x, (1, 6), axis=(0, 1)),
    "tile": lambda xp, a: xp.tile(a.x, (2, 1, 3)),
    "tile 1": lambda xp, a: xp.tile(a.cube, 2),
    "repeat": lambda xp, a: xp.repeat(a.x, 3, axis=1),
    "repeat flat": lambda xp, a: xp.repeat(a.x, 2),
    "repeat counts": lambda xp, a: xp.repeat(a.x, [2, 0, 1], axis=0),
    "pad": lambda xp, a: xp.pad(a.x, 1),
    "pad pairs": lambda xp, a: xp.pad(a.x, ((1, 2), (0, 3)), constant_values=2.0),
    "pad values": lambda xp, a: xp.pad(a.x, ((1, 2), (2, 1)), constant_values=((1, 2), (3, 4))),
    "concatenate": lambda xp, a: xp.concatenate([a.x, a.f32, a.i], axis=0),
    "concatenate none": lambda xp, a: xp.concatenate([a.x, a.v], axis=None),
    "concatenate empty": lambda xp, a: xp.concatenate([a.empty, a.x]),
    "stack": lambda xp, a: xp.stack([a.x, a.f32], axis=-1),
    "vstack": lambda xp, a: xp.vstack([a.w, a.x]),
    "hstack": lambda xp, a: [xp.hstack([a.v, a.w]), xp.hstack([a.x, a.f32])],
    "dstack": lambda xp, a: xp.dstack([a.x, a.x]),
    "column_stack": lambda xp, a: xp.column_stack([a.t3, a.x]),
    "split": lambda xp, a: xp.split(a.x, 2, axis=1),
    "split places": lambda xp, a: xp.split(a.v, [1, 3]),
    "array_split": lambda xp, a: xp.array_split(a.v, 3),
    "unstack": lambda xp, a: list(xp.unstack(a.x, axis=1)),
    "iterate": lambda xp, a: list(a.x),
    "astype": lambda xp, a: [a.x.astype(np.int32), a.i.astype(bool), a.b.astype(np.float32), a.x.astype(np.complex64)],
    "diff": lambda xp, a: xp.diff(a.x),
    "diff 2": lambda xp, a: xp.diff(a.cube, n=2, axis=1),
    "diff ends": lambda xp, a: xp.diff(a.x, axis=0, prepend=0.0, append=a.x[:1]),
    "diff bool": lambda xp, a: xp.diff(a.b),
    "sort": lambda xp, a: xp.sort(a.x),
    "sort 0": lambda xp, a: xp.sort(a.ties, axis=0),
    "sort none": lambda xp, a: xp.sort(a.x, axis=None),
    "sort nans": lambda xp, a: xp.sort(a.nans, axis=1),
    "sort int": lambda xp, a: xp.sort(a.i, axis=0),
    "argsort": lambda xp, a: xp.argsort(a.x, axis=0),
    "argsort stable": lambda xp, a: xp.argsort(a.ties, axis=1, stable=True),
    "searchsorted": lambda xp, a: xp.searchsorted(xp.sort(a.v), a.x),
    "searchsorted right": lambda xp, a: xp.searchsorted(xp.arange(5), a.i, side="right"),
}
for mode in ["edge", "reflect", "symmetric", "wrap"]:
    SHAPES[f"pad {mode}"] = lambda xp, a, m=mode: xp.pad(a.x, ((1, 2), (2, 1)), mode=m)
    SHAPES[f"pad {mode} far"] = lambda xp, a, m=mode: xp.pad(a.v, (7, 11), mode=m)

for mode in ["maximum", "minimum", "mean", "median"]:
    SHAPES[f"pad {mode}"] = lambda xp, a, m=mode: xp.pad(a.x, ((1, 2), (2, 0)), mode=m)
    SHAPES[f"pad {mode} of two"] = lambda xp, a, m=mode: xp.pad(a.i, 2, mode=m, stat_length=((2, 3),))
SHAPES["pad ramp"] = lambda xp, a: xp.pad(a.x, ((1, 2), (3, 0)), mode="linear_ramp", end_values=((1, 2), (3, 4)))
SHAPES["pad ramp of integers"] = lambda xp, a: xp.pad(a.i, 3, mode="linear_ramp", end_values=-5)

PRODUCTS = {
    "matmul": lambda xp, a: a.x @ a.three,
    "matmul vectors": lambda xp, a: a.v @ a.v,
    "matmul mv": lambda xp, a: a.x @ a.w,
    "matmul vm": lambda xp, a: a.t3 @ a.x,
    "matmul batch": lambda xp, a: a.cube @ a.batch,
    "matmul batch matrix": lambda xp, a: a.cube @ a.three,
    "matmul matrix batch": lambda xp, a: a.x @ a.batch,
    "matmul broadcast": lambda xp, a: a.many @ a.batch,
    "matmul batch vector": lambda xp, a: a.cube @ a.w,
    "matmul vector batch": lambda xp, a: a.w @ a.batch,
    "matmul int": lambda xp, a: a.i @ a.i.T,
    "matmul mixed": lambda xp, a: a.f32 @ a.three,
    "matmul bool": lambda xp, a: a.b @ a.b.T,
    "matmul empty": lambda xp, a: a.empty.T @ a.empty,
    "matmul complex": lambda xp, a: a.c @ a.c.T,
    "numpy @ traced": lambda xp, a: np.eye(3) @ a.x,
    "dot": lambda xp, a: xp.dot(a.x, a.three),
    "dot 3d": lambda xp, a: xp.dot(a.cube, a.batch),
    "dot scalar": lambda xp, a: xp.dot(a.s, a.x),
    "inner": lambda xp, a: xp.inner(a.x, a.cube),
    "outer": lambda xp, a: xp.outer(a.v, a.w),
    "outer flat": lambda xp, a: xp.outer(a.x, a.w),
    "vdot": lambda xp, a: xp.vdot(a.c, a.c),
    "vecdot": lambda xp, a: xp.vecdot(a.cube, a.x),
    "vecdot complex": lambda xp, a: xp.vecdot(a.c, a.c, axis=0),
    "tensordot 1": lambda xp, a: xp.tensordot(a.x, a.three, 1),
    "tensordot 2": lambda xp, a: xp.tensordot(a.cube, a.x, 2),
    "tensordot 0": lambda xp, a: xp.tensordot(a.v, a.w, 0),
    "tensordot axes": lambda xp, a: xp.tensordot(a.cube, a.batch, axes=([2, 0], [1, 0])),
    "kron": lambda xp, a: xp.kron(a.x, a.three),
    "kron vector": lambda xp, a: xp.kron(a.v, a.x),
    "cross": lambda xp, a: xp.cross(a.three, a.t3),
    "cross axis": lambda xp, a: xp.cross(a.x, a.x[:, ::-1], axis=0),
    "einsum implicit": lambda xp, a: xp.einsum("ij,jk", a.x, a.three),
    "einsum implicit order": lambda xp, a: xp.einsum("ba,ca", a.x, a.x),
    "einsum transposed": lambda xp, a: xp.einsum("ij,jk->ki", a.x, a.three),
    "einsum transpose": lambda xp, a: xp.einsum("ijk->kij", a.cube),
    "einsum sum": lambda xp, a: xp.einsum("ijk->j", a.cube),
    "einsum total": lambda xp, a: xp.einsum("ij->", a.x),
    "einsum trace": lambda xp, a: xp.einsum("ii", a.square),
    "einsum diagonal": lambda xp, a: xp.einsum("ii->i", a.square),
    "einsum diagonal product": lambda xp, a: xp.einsum("ii,ij->j", a.square, a.square),
    "einsum batch": lambda xp, a: xp.einsum("bij,bjk->bik", a.cube, a.batch),
    "einsum batch last": lambda xp, a: xp.einsum("bij,bjk->ikb", a.cube, a.batch),
    "einsum hadamard": lambda xp, a: xp.einsum("ij,ij->ij", a.x, a.f32),
    "einsum outer": lambda xp, a: xp.einsum("i,j->ji", a.v, a.w),
    "einsum free sum": lambda xp, a: xp.einsum("ij,jk->i", a.x, a.three),
    "einsum ellipsis": lambda xp, a: xp.einsum("...ij,...jk->...ik", a.many, a.batch),
    "einsum ellipsis implicit": lambda xp, a: xp.einsum("...i,i", a.cube, a.w),
    "einsum ellipsis last": lambda xp, a: xp.einsum("i...->...", a.cube),
    "einsum ellipsis moved": lambda xp, a: xp.einsum("...i->i...", a.cube),
    "einsum bilinear": lambda xp, a: xp.einsum("i,ij,j->", a.t3, a.x, a.w),
    "einsum four": lambda xp, a: xp.einsum("ij,jk,kl,l->i", a.x, a.three, a.x, a.w),
    "einsum left to right": lambda xp, a: xp.einsum("ij,jk,kl->il", a.x, a.three, a.x, optimize=False),
    "einsum with sizes 1": lambda xp, a: xp.einsum("aib,jb->ij", a.unit, a.three[:, :1]),
    "einsum int": lambda xp, a: xp.einsum("ij,kj->ik", a.i, a.i64),
}
for _group in (CREATION, REDUCTIONS, SHAPES, PRODUCTS):
    assert _group
GROUPS = [
    Group(INPUTS, dict(list(cases.items())[i : i + 50]))
    for cases in (CREATION, REDUCTIONS, SHAPES, PRODUCTS)
    for i in range(0, len(cases), 50)
]


@pytest.mark.parametrize(("group", "name"), [(g, n) for g in GROUPS for n in g], ids=lambda v: v if isinstance(v, str) else "")
def test_against_numpy(group, name):
    group.check(name)


# ---------------------------------------------------------------- methods
GIVEN = {**vars(ArrayOperators), **vars(ArrayMethods)}


@pytest.mark.parametrize("name", sorted(methods.functions()))
def test_a_method_has_the_signature_and_the_words_of_its_function(name: str) -> None:
    method, function = GIVEN[name], methods.functions()[name]
    if name.startswith("__") or isinstance(method, property) or name in ("reshape", "transpose"):
        return
    found, wanted = ([p for p in list(inspect.signature(f).parameters.values())[1:] if p.name != "out"] for f in (method, function))
    assert [(p.name, p.default) for p in found] == [(p.name, p.default) for p in wanted]
    assert inspect.getdoc(method) == inspect.getdoc(function).splitlines()[0]


def test_every_method_of_arrays_calls_a_function() -> None:
    given = {n for n, m in GIVEN.items() if isinstance(m, (types.FunctionType, property))}
    assert given - {"_call", "__array_ufunc__", "__getattr__", "__round__", "weak_type"} == set(methods.functions())


def test_round_of_python_is_the_method_of_that_name() -> None:
    x = Array.from_numpy(np.array([1.256, -2.5]))
    assert (round(x).tolist(), round(x, 1).tolist()) == ([1.0, -2.0], [1.3, -2.5])
    assert jit(lambda x: round(x, 1))(x).tolist() == [1.3, -2.5]
