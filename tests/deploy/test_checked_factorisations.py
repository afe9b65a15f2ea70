"""Checks of programs that factor matrices: a wrong factorisation is found, and the open choices of a right one are no fault."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.jax.scipy.linalg as sla
import nabla_mlir.numpy as nnp
from nabla_mlir.compiling import checking, lowering
from nabla_mlir.compiling.comparison import compare
from nabla_mlir.compiling.reference_check import check_artifact
from nabla_mlir.compiling.reference_runs import ReferenceRuns
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import nested
from nabla_mlir.interpreter.choices import routine_of
from nabla_mlir.runtime.drawn import drawn

la = nnp.linalg
RNG = np.random.RandomState(3)
GENERAL, TALL = RNG.normal(size=(5, 5)), RNG.normal(size=(7, 4))
SYMMETRIC = GENERAL + GENERAL.T
DEFINITE = GENERAL @ GENERAL.T + np.eye(5)
EQUAL, SINGULAR = np.diag([1.0, 0, 1, 0, 1]), np.ones((5, 5))
SPIRAL = np.triu(GENERAL) + 3j * np.eye(5)


def of_spectrum(a):
    """A matrix function by eigenvectors, which their signs and bases leave as it is."""
    w, v = la.eigh(a)
    return (v * nnp.exp(w)) @ nnp.conj(v).T


def reconstructed(a):
    u, s, v = la.svd(a, full_matrices=False)
    return (u * s) @ v


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "cholesky": (lambda a: la.cholesky(a), [DEFINITE, SYMMETRIC, -DEFINITE, np.zeros((5, 5))]),
    "log det": (nm.grad(lambda a: nnp.sum(nnp.log(nnp.diagonal(la.cholesky(a))))), [DEFINITE, SYMMETRIC]),
    "solve": (lambda a: (la.solve(a, a[0]), la.slogdet(a)), [DEFINITE, GENERAL, np.eye(5)]),
    "eigh": (la.eigh, [DEFINITE, SYMMETRIC, EQUAL, SINGULAR, np.eye(5), SYMMETRIC + 1j * (GENERAL - GENERAL.T)]),
    "of spectrum": (of_spectrum, [DEFINITE, SYMMETRIC, EQUAL, SINGULAR]),
    "eigh gradient": (nm.grad(lambda a: nnp.sum(la.eigh(a)[1] ** 4) + la.eigvalsh(a)[0]), [DEFINITE, SYMMETRIC]),
    "svd": (la.svd, [GENERAL, TALL, EQUAL, SINGULAR, np.zeros((5, 5)), SPIRAL]),
    "reconstructed": (reconstructed, [GENERAL, TALL, SINGULAR]),
    "nuclear norm": (nm.grad(lambda a: nnp.sum(la.svd(a, compute_uv=False))), [GENERAL, TALL]),
    "pinv": (lambda a: (la.pinv(a), la.cond(a), la.matrix_rank(a)), [GENERAL, TALL, SINGULAR]),
    "qr": (la.qr, [GENERAL, TALL, EQUAL, SINGULAR, np.triu(GENERAL), SPIRAL]),
    "lu": (sla.lu, [GENERAL, EQUAL, SINGULAR]),
    "eig": (la.eig, [GENERAL, SYMMETRIC, np.eye(5), SPIRAL]),
    "schur": (sla.schur, [GENERAL, SYMMETRIC]),
    "hessenberg": (lambda a: sla.hessenberg(a, calc_q=True), [GENERAL, SYMMETRIC]),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(checking, "_known", {})


QUICK = ("cholesky", "of spectrum", "svd", "qr")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS])
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_right_factorisations_are_not_refused(name, dtype):
    f, matrices = PROGRAMS[name]
    for a in matrices:
        wide = np.dtype(dtype) if a.dtype.kind == "f" else np.dtype({"float64": "complex128", "float32": "complex64"}[dtype])
        x = a.astype(wide)
        stage = nm.trace(f, x, name="main").lower()
        compiled = stage.compile()
        assert compiled.checks["main"].status == "checked" or "rounding decides" in compiled.checks["main"].detail
        check = check_artifact(stage.module, compiled.target, compiled.vmfb, {"main": [x]}, "", False)["main"]
        assert check.status != "differs", (a, check)
        is_regular = (a is DEFINITE or a is GENERAL) and name not in ("eigh", "svd", "eig", "schur")  # vectors, an order
        assert check.status == "checked" or not is_regular, (a, check)


def scaled_operand(module: ir.Module, factor: float = 1.0001) -> None:
    """Factorisations are those of another matrix."""
    for op in nested(module.operation):
        if routine_of(op) not in ("", "orgqr", "ungqr"):
            x = op.operands[0]
            with context(), ir.InsertionPoint(op), ir.Location.unknown():
                attribute = ir.DenseElementsAttr.get_splat(x.type, ir.FloatAttr.get(x.type.element_type, factor))
                constant = ir.Operation.create("stablehlo.constant", results=[x.type], attributes={"value": attribute})
                product = ir.Operation.create("stablehlo.multiply", operands=[x, constant.results[0]], results=[x.type])
            op.operands[0] = product.results[0]


def swapped_results(module: ir.Module) -> None:
    """Vectors have their first two rows exchanged: no choice that a routine has."""
    for op in nested(module.operation):
        for result in op.results if routine_of(op) in ("syevd", "gesdd", "cholesky", "ungqr", "orgqr") else ():
            shape = result.type.shape
            if len(shape) != 2 or shape[0] < 3:
                continue
            with context(), ir.InsertionPoint.after(op), ir.Location.unknown():
                parts = [_rows(result, a, b) for a, b in ((1, 2), (0, 1), (2, shape[0]))]
                whole = ir.Operation.create(
                    "stablehlo.concatenate",
                    operands=parts,
                    results=[result.type],
                    attributes={"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)},
                )
            inner = [part.owner for part in parts]
            for use in [*result.uses]:
                if use.owner not in inner:
                    use.owner.operands[use.operand_number] = whole.results[0]


def _rows(x: ir.Value, start: int, stop: int) -> ir.Value:
    columns = x.type.shape[1]
    bounds = {"start_indices": [start, 0], "limit_indices": [stop, columns], "strides": [1, 1]}
    kind = ir.RankedTensorType.get([stop - start, columns], x.type.element_type)
    attributes = {name: ir.DenseI64ArrayAttr.get(values) for name, values in bounds.items()}
    return ir.Operation.create("stablehlo.slice", operands=[x], results=[kind], attributes=attributes).results[0]


FAULTS = {f.__name__: f for f in (scaled_operand, swapped_results)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "name", ["cholesky", *(pytest.param(name, marks=pytest.mark.slow) for name in ("of spectrum", "reconstructed", "qr"))]
)
def test_wrong_factorisations_are_caught(name, fault, monkeypatch):
    legalize = lowering.legalize

    def wrong(module, target, schedule=True):
        broken = lowering.clone_module(module)
        if schedule:
            FAULTS[fault](broken)
        return legalize(broken, target, schedule)

    monkeypatch.setattr(lowering, "legalize", wrong)
    stage = nm.trace(PROGRAMS[name][0], DEFINITE, name="main").lower()
    with pytest.warns(RuntimeWarning, match="differed from the reference interpreter"):
        compiled = stage.compile(nm.CPU("host"))
    assert compiled.checks["main"].status == "checked"
    assert compiled.checks["main"].strategy != checking.STRATEGIES[0].name


def test_the_choices_of_eigenvectors_are_drawn():
    """Other signs are right, and nothing is claimed of them; what does not depend on them is checked to its last digits."""
    stage = nm.trace(lambda a: la.eigh(a)[1], DEFINITE, name="main").lower()
    runs = ReferenceRuns(stage.module, {"main": [DEFINITE]})
    (wanted,) = runs.call("main")
    perturbed = lambda k: runs.perturbed("main", k)  # noqa: E731
    outcome = compare([wanted * np.array([1, -1, 1, 1, -1])], [wanted], perturbed)
    assert outcome.difference is None
    assert outcome.share < 0.5
    assert compare([wanted[::-1] * 100], [wanted], perturbed).difference is not None
    spectrum = nm.trace(of_spectrum, DEFINITE, name="main").lower()
    runs = ReferenceRuns(spectrum.module, {"main": [DEFINITE]})
    (wanted,) = runs.call("main")
    assert compare([wanted * (1 + 1e-10)], [wanted], lambda k: runs.perturbed("main", k)).difference is not None


def test_matrices_are_drawn_that_have_factors():
    (a, b, v) = drawn([((4, 4), np.dtype("f8")), ((2, 3, 3), np.dtype("c16")), ((4,), np.dtype("f4"))], "f", is_definite=True)
    assert np.linalg.eigvalsh(a).min() > 0.2
    assert np.linalg.eigvalsh(b).min() > 0.2
    np.testing.assert_array_equal(b, np.conj(b.swapaxes(-1, -2)))
    np.testing.assert_array_equal(
        v, drawn([((4, 4), np.dtype("f8")), ((2, 3, 3), np.dtype("c16")), ((4,), np.dtype("f4"))], "f")[2]
    )
    stage = nm.trace(lambda a: la.cholesky(a), nm.spec((4, 4), "f64"), name="main").lower()
    assert str(stage.compile().checks["main"]) == "checked: on random arguments, numbers around 1"
