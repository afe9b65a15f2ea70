"""Artifacts that travel: pickles, copies, bytes, a shared folder; what arrives computes the same, with state of its own."""

from __future__ import annotations

import collections
import copy
import functools
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import CompileError, DeployError, OutOfMemoryError, SaveError, ShapeError, TreeError
from nabla_mlir.runtime import executable
from nabla_mlir.runtime.storage import store_artifact
from nabla_mlir.sparse.pattern import Pattern

X = np.array([1.0, 2.0, 3.0])
Pair = collections.namedtuple("Pair", "first second")


def cubes(x: Any) -> Any:
    return nnp.sum(x**3)


@functools.cache
def lowered() -> Any:
    return nm.trace(cubes, nm.spec(3, "f64"), name="cubes").lower()


@functools.cache
def compiled() -> Any:
    return lowered().compile()


@functools.cache
def prepared() -> Any:
    return nm.hvp_module(cubes, nm.spec(3, "f64"), entry_points=("update", "apply"))


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


THINGS = {
    "traced": lambda: nm.trace(nm.grad(cubes), nm.spec(3, "f64"), name="slope"),
    "lowered": lowered,
    "compiled": compiled,
    "bundle": lambda: nm.Lowered(lowered().module, lowered().entries).compile([nm.CPU("host")]),
    "interpreted": lambda: lowered().compile(nm.Interpreter()),
    "module": lambda: compiled().loaded,
    "interpreted module": lambda: lowered().compile(nm.Interpreter()).loaded,
    "prepared": prepared,
    "operator": lambda: nm.HessianOperator(cubes, X, damping=0.5),
    "target": lambda: nm.CPU("generic", threads=1),
    "interpreter": nm.Interpreter,
    "pattern": lambda: Pattern.of(np.eye(3)),
}


@pytest.mark.parametrize("way", [pickled, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("name", THINGS)
def test_copies_are_equal(name: str, way: Any) -> None:
    thing = THINGS[name]()
    other = way(thing)
    assert type(other) is type(thing)
    assert other.__dask_tokenize__() == thing.__dask_tokenize__()
    if hasattr(thing, "mlir"):
        assert other.mlir() == thing.mlir()
    if name in ("target", "interpreter", "pattern"):
        assert other == thing


@pytest.mark.parametrize("name", ["compiled", "bundle", "interpreted", "module", "interpreted module"])
def test_copies_compute_the_same(name: str) -> None:
    assert float(pickled(THINGS[name]()).cubes(X)) == 36.0


def test_what_arrives_can_be_lowered_and_transformed() -> None:
    f = pickled(compiled().loaded).lower().function("cubes")
    assert nm.grad(f)(X).tolist() == [3.0, 12.0, 27.0]


def test_the_state_stays_and_that_of_an_operator_is_made_again() -> None:
    module = prepared().compile(nm.Interpreter()).loaded
    module.update(X)
    for other in (pickled(module), copy.deepcopy(module), copy.copy(module)):
        with pytest.raises(DeployError, match="before the first update"):
            other.apply(X)
    H = nm.HessianOperator(cubes, X, damping=0.5)
    for other in (pickled(H), copy.deepcopy(H), copy.copy(H)):
        assert other.update(2 * X)[0] == 8 * 36.0
        assert (H @ X).tolist() == (6 * X * X + 0.5 * X).tolist(), "the other has moved, and this one has not"
        assert other.products == 0
        assert (other @ X).tolist() == (12 * X * X + 0.5 * X).tolist()


def test_tokens_tell_apart_what_differs() -> None:
    tokens = {str(thing().__dask_tokenize__()) for thing in THINGS.values()}
    operators = [nm.HessianOperator(lambda x, y: nnp.sum(x * x * y), X, y) for y in (X, X + 1)]
    assert len(tokens | {str(H.__dask_tokenize__()) for H in operators}) == len(THINGS) + 2
    assert nm.hvp_module(cubes, nm.spec(3, "f64"), entry_points=("update", "apply")).digest == prepared().digest


def test_a_process_opens_equal_code_once() -> None:
    executable._loaded.cache_clear()
    arrivals = [pickled(compiled().loaded) for _ in range(3)]
    assert executable._loaded.cache_info().misses == 1
    assert [float(module.cubes(X)) for module in arrivals] == [36.0] * 3
    assert len({id(module.executable._module) for module in arrivals}) == 1


def test_types_of_trees_arrive_where_they_exist() -> None:
    f = nm.trace(lambda p: Pair(p.first * 2, {"sum": p.first + p.second}), Pair(nm.spec(), nm.spec()), name="f").lower()
    result = pickled(f.compile(nm.Interpreter()).loaded).f(Pair(np.float32(1), np.float32(2)))
    assert (float(result.first), float(result.second["sum"])) == (2.0, 3.0)
    assert isinstance(result, Pair)


WITHOUT = """
import pickle, sys
for name in ("iree.compiler", "optree", "scipy"):
    sys.modules[name] = None
import numpy as np
module = pickle.load(open(sys.argv[1], "rb"))
print(float(module.cubes(np.array([1.0, 2.0, 3.0]))), module.digest)
"""


def test_a_worker_needs_no_compiler(tmp_path: Path) -> None:
    file = tmp_path / "module.pickle"
    file.write_bytes(pickle.dumps(compiled().loaded))
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["36.0", compiled().loaded.digest]


def test_code_for_another_machine_is_refused() -> None:
    module = copy.copy(compiled().loaded)
    module.code = replace(module.code, target=module.code.target | {"triple": "riscv64-unknown-linux-gnu"})
    with pytest.raises(DeployError, match="a CPU of the architecture riscv64, got"):
        pickled(module)
    module = copy.copy(compiled().loaded)
    module.manifest = replace(module.manifest, iree_range=("4.0", "4.1"))
    with pytest.raises(DeployError, match=r"runtime from 4.0 to before 4.1, got 3.13"):
        pickled(module)


def test_a_bundle_takes_the_code_that_fits_where_it_arrives() -> None:
    generic = lowered().compile(nm.CPU("generic"))
    bundle = lowered().compile([nm.CPU("cortex-a72", triple="aarch64-linux-gnu"), nm.CPU("generic")])
    other = pickled(bundle)
    assert other.here.vmfb == generic.vmfb
    assert float(other.cubes(X)) == 36.0


def test_bytes_and_a_folder_for_all(tmp_path: Path) -> None:
    content = compiled().to_bytes()
    assert content == pickled(compiled()).to_bytes()
    assert float(nm.load(content).cubes(X)) == 36.0
    place = compiled().store(tmp_path / "shared")
    assert place == store_artifact(tmp_path / "shared", content)
    assert float(nm.load(place).cubes(X)) == 36.0
    with pytest.raises(DeployError, match="requires an archive, got"):
        nm.load(content[:100])
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="requires a path that can be written"):
        store_artifact(tmp_path / "file", content)


def stored(folder: str, content: bytes) -> str:
    for _ in range(20):
        path = store_artifact(folder, content)
        assert path.read_bytes() == content
        path.unlink(missing_ok=True)  # so that all write at once
    return str(store_artifact(folder, content))


def test_many_processes_store_at_once(tmp_path: Path) -> None:
    content = compiled().to_bytes()
    folder = tmp_path / "shared"
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        paths = set(pool.map(tolerant, [str(folder)] * 3, [content] * 3))
    assert len(paths) == 1
    assert [path.name for path in folder.iterdir()] == [Path(paths.pop()).name], "nothing else is left behind"


def tolerant(folder: str, content: bytes) -> str:
    """As others may take a file away between writing and reading it."""
    for _ in range(100):
        try:
            return stored(folder, content)
        except FileNotFoundError:
            pass
    raise AssertionError("never read whole")


@pytest.mark.parametrize(
    "error",
    [
        ShapeError("a requires b, got c.", help="do d"),
        OutOfMemoryError("f", "much"),
        CompileError("a requires b, got c.", reproducer="r.sh"),
        TreeError("a requires b, got c."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_as_they_were(error: Any) -> None:
    other = pickled(error)
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


ALONE = """
import sys
for name in ("iree.compiler", "optree"):
    sys.modules[name] = None
import numpy as np, nabla_mlir as nm
rows = np.arange(10.0).reshape(5, 2)
H = nm.SumOperator(sys.argv[1], np.ones(2), [(rows[:2],), (rows[2:4],), (rows[4:],)], damping=1.0)
*_, estimate = nm.hutchinson(H, 4)
print((H @ np.ones(2)).tolist() == (rows.T @ rows @ np.ones(2) + 1).tolist(), H.rows)
"""


def test_a_sum_over_batches_needs_no_compiler(tmp_path: Path) -> None:
    squares = nm.hvp_module(
        lambda x, rows: nnp.sum((rows @ x) ** 2) / 2, nm.spec(2, "f64"), nm.spec((2, 2), "f64"), entry_points=("update", "apply")
    )
    path = squares.compile().save(tmp_path / "sum.zip")
    done = subprocess.run([sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "5"]
