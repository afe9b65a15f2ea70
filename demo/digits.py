"""A Hessian-vector product from a Python function to a file, the proof that it is right, and its use.

A two-layer network reads handwritten digits. Its loss becomes one .vmfb with the entry points value, gradient, hvp
and predict, for this CPU. The file is then run without this framework and without Python, checked against finite
differences, and trains the network by a trust-region Newton method.

usage: make demo, or python demo/digits.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optree
from display import Display, duration
from iree import _runtime_libs
from network import digits, initial_params, loss, predict
from scipy.optimize import minimize

import nabla_mlir as nm
from nabla_mlir import runtime

SEED, L2 = 0, 1e-3


def main() -> int:
    """Runs the demo; 1 if a proof fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder for the artifact")
    out = parser.parse_args().out
    show, measured = Display(), dict[str, float]()
    train_x, test_x, train_y, test_y = digits(SEED)
    params = initial_params(SEED)
    data = (train_x, train_y, np.float64(L2))

    path = build(show, measured, out, params, data, test_x)
    module = runtime.load(path)
    prove(show, measured, module, path, params, data)
    train(show, module, params, data, test_x, test_y)
    report(show, measured, module, path, params, data)
    for failure in show.failures:
        show.print(f"[bold red]FAILED[/bold red] {failure}")
    return 1 if show.failures else 0


def build(show: Display, measured: dict[str, float], out: Path, params: Any, data: Any, test_x: Any) -> Path:
    """From the Python function to the artifact."""
    show.title("1. From a Python function to a file")
    with show.step("Trace the loss") as say:
        start = time.perf_counter()
        traced = nm.module(
            value=nm.trace(loss, params, *data),
            gradient=nm.trace(nm.grad(loss), params, *data),
            hvp=nm.trace(nm.hvp(loss), params, params, *data),
            predict=nm.trace(predict, params, test_x),
        )
        say(f"value, gradient, hvp and predict; {_operations(traced)} operations with ad regions")
    with show.step("Differentiate in passes over the IR") as say:
        lowered = traced.lower()
        measured["trace and passes"] = time.perf_counter() - start
        say(f"{_operations(lowered)} StableHLO operations")
    with show.step("Compile ahead of time for this CPU") as say:
        start = time.perf_counter()
        compiled = lowered.compile(nm.CPU("host"), cache=False)
        measured["compile"] = time.perf_counter() - start
        say(f"{len(compiled.vmfb):,} bytes for {compiled.target.resolve().cpu}")
    with show.step("Save") as say:
        path = compiled.save(out / "hvp.vmfb")
        text = lowered.save_mlir(path.with_suffix(".mlir"))
        say(f"{path}, its manifest {path.with_suffix('.json')}, its StableHLO {text}")
    return path


def prove(show: Display, measured: dict[str, float], module: Any, path: Path, params: Any, data: Any) -> None:
    """The file runs elsewhere, and its Hessian-vector product is the derivative of its gradient."""
    show.title("2. The file is right")
    rng = np.random.default_rng(SEED + 1)
    u, v = (_like(params, rng.normal(size=_flat(params).size)) for _ in range(2))
    here = _flat(module.hvp(params, v, *data))
    point = module.entry_points["hvp"]
    inputs = {}
    for argument, value in zip(point.arguments, (params, v, *data), strict=True):
        inputs |= {leaf.name: x for leaf, x in zip(argument.leaves, argument.tree.flatten(value), strict=True)}

    with show.step("Run by iree-run-module from .npy files: no Python"):
        found, measured["cold start, iree-run-module"] = run_by_iree(path, module.driver, inputs, point)
    show.proof("iree-run-module agrees", _relative(found, here), 1e-12)
    with show.step("Run in a new Python process that has only the runtime") as say:
        found, seconds, measured["cold start, Python"] = run_deployed(path, inputs, point)
        say(f"{seconds * 1e3:.0f} ms from its first line to the result")
    show.proof("the other process agrees", _relative(found, here), 1e-12)

    def gradient_at(step: float) -> np.ndarray:
        return _flat(module.gradient(_like(params, _flat(params) + step * _flat(v)), *data))

    step = 1e-5
    central = (gradient_at(step) - gradient_at(-step)) / (2 * step)
    show.proof("Hv is the central difference of the gradient in f64", _relative(here, central), 1e-7)
    other = _flat(module.hvp(params, u, *data))
    a, b = _flat(u) @ here, _flat(v) @ other
    show.proof("u·Hv = v·Hu", abs(a - b) / abs(a), 1e-10)
    combined = _flat(module.hvp(params, _like(params, 2 * _flat(u) - 3 * _flat(v)), *data))
    show.proof("H(2u - 3v) = 2Hu - 3Hv", _relative(combined, 2 * other - 3 * here), 1e-12)


def run_by_iree(path: Path, driver: str, inputs: dict[str, np.ndarray], point: Any) -> tuple[np.ndarray, float]:
    """The result of IREE's own command on .npy files, and the time of the process."""
    folder = path.parent / "npy"
    folder.mkdir(exist_ok=True)
    command = [str(_iree_run_module()), f"--module={path}", f"--device={driver}", f"--function={point.function}"]
    for i, value in enumerate(inputs.values()):
        np.save(folder / f"in{i}.npy", value)
        command.append(f"--input=@{folder / f'in{i}.npy'}")
    outputs = [folder / f"out{i}.npy" for i in range(len(point.result_leaves))]
    command += [f"--output=@{file}" for file in outputs]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    return np.concatenate([np.load(file).ravel() for file in outputs]), seconds


def _iree_run_module() -> Path:
    return Path(_runtime_libs.__path__[0]) / "iree-run-module"


def run_deployed(path: Path, inputs: dict[str, np.ndarray], point: Any) -> tuple[np.ndarray, float, float]:
    """The result of a process of its own, its time from the first line on, and with Python's own start."""
    given, found = path.parent / "inputs.npz", path.parent / "outputs.npz"
    np.savez(given, **inputs)
    command = [sys.executable, str(Path(__file__).with_name("deployed.py")), str(path), point.name, str(given), str(found)]
    start = time.perf_counter()
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    with np.load(found) as file:
        return np.concatenate([file[leaf.name].ravel() for leaf in point.result_leaves]), float(result.stdout), seconds


def train(show: Display, module: Any, params: Any, data: Any, test_x: np.ndarray, test_y: np.ndarray) -> None:
    """Trust-region Newton-CG: the products come from the file."""
    show.title("3. The file at work: SciPy's trust-region Newton-CG trains the network")
    device = runtime.device(module.driver)
    resident = optree.tree_map(lambda a: runtime.Array.from_numpy(np.asarray(a), device), data)
    calls = {"value": 0, "gradient": 0, "hvp": 0}

    def entry(name: str) -> Callable[..., np.ndarray]:
        def call(*vectors: np.ndarray) -> np.ndarray:
            calls[name] += 1
            return _flat(module[name](*(_like(params, vector) for vector in vectors), *resident))

        return call

    value, gradient, hvp = map(entry, calls)
    with show.step("Train") as say:

        def progress(intermediate_result: Any) -> None:
            say(f"loss {intermediate_result.fun:.5f} after {calls['gradient']} gradients and {calls['hvp']} products")

        result = minimize(
            lambda x: float(value(x)[0]),
            _flat(params),
            jac=gradient,
            hessp=hvp,
            method="trust-ncg",
            callback=progress,
            options={"gtol": 1e-6, "maxiter": 300},
        )
    trained = _like(params, result.x)
    norm = np.linalg.norm(result.jac)
    show.print(f"    gradient norm {norm:.1e} after {result.nit} steps, {calls['hvp']} Hessian-vector products")
    show.proof("a stationary point was reached", float(norm), 1e-5)
    accuracy = np.mean(np.asarray(module.predict(trained, test_x)) == test_y)
    show.print(f"    [bold]test accuracy {accuracy:.1%}[/bold] on {len(test_y)} images it has not seen")
    show.proof("the network has learned", 1 - float(accuracy), 0.05)


def report(show: Display, measured: dict[str, float], module: Any, path: Path, params: Any, data: Any) -> None:
    """The numbers of this run."""
    device = runtime.device(module.driver)
    x, resident = optree.tree_map(lambda a: runtime.Array.from_numpy(np.asarray(a), device), (params, data))
    times = {
        name: _time(lambda name=name, first=first: module[name](*first, *resident))
        for name, first in {"value": (x,), "gradient": (x,), "hvp": (x, x)}.items()
    }
    rows = [(name, duration(seconds)) for name, seconds in (measured | times).items()]
    rows.insert(2, ("artifact", f"{path.stat().st_size:,} bytes"))
    rows.append(("hvp / gradient", f"{times['hvp'] / times['gradient']:.2f}"))
    show.table(f"Measured in this run ({module.driver}, f64, {len(data[0])} images, {_flat(params).size} parameters)", rows)


def _flat(tree: Any) -> np.ndarray:
    """All numbers of a pytree as one vector."""
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in optree.tree_leaves(tree)])


def _like(tree: Any, vector: np.ndarray) -> Any:
    """A vector as a pytree like the given one."""
    leaves, spec = optree.tree_flatten(tree)
    pieces = np.split(vector, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return optree.tree_unflatten(spec, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def _operations(stage: Any) -> int:
    return sum(" = " in line for line in stage.mlir().splitlines())


def _time(call: Callable[[], Any], seconds: float = 0.5) -> float:
    """The median time of a call."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


if __name__ == "__main__":
    sys.exit(main())
