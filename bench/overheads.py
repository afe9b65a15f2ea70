"""Measures the overhead of calls: each framework calls a function of eight numbers, and its own derivative for comparison.

usage: python bench/overheads.py [--only WORD ...] [--quick] [--out FOLDER]
Writes overheads.json. All functions are compiled and in f64. The two sides of a row alternate, and each call has a new point, so
that no result can be reused. The other side uses the derivatives of the package. SciPy and Ipopt have none, so their other side
is jax.jit with NumPy arrays as results.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measuring import console, interleaved, parse_words, save
from peers import is_installed
from rich.table import Table

import nabla_mlir as nm
from nabla_mlir.interop.ipopt import Problem
from nabla_mlir.interop.scipy import Objective, Residuals

N = 8
POINTS = 0.5 + np.random.default_rng(0).random((5, N))
V, WEIGHTS = np.linspace(-1, 1, N), np.linspace(1, 2, N - 1)
Rows = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]  # the calls of nabla_mlir, and of the package


@dataclass(frozen=True)
class Case:
    """Calls from one package, which must be installed."""

    title: str
    package: str
    rows: Callable[[], Rows]


@dataclass
class Result:
    """The seconds of a call of nabla_mlir, and of the other side."""

    title: str
    row: str
    ours: float
    theirs: float


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def steps(x: Any) -> Any:
    return x[1:] - x[:-1] ** 2


def over(call: Callable[..., Any], *rest: Any, make: Callable[[np.ndarray], Any] = np.array) -> Callable[[], Any]:
    """Returns a function that calls `call` at the next point each time."""
    points = itertools.cycle([make(x) for x in POINTS])
    return lambda: call(next(points), *rest)


def of_jax(g: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of JAX in the form that solvers call."""
    compiled = jax.jit(g)
    return lambda *args: np.asarray(compiled(*args))


def product(x: Any, v: Any) -> Any:
    return jax.jvp(jax.grad(rosenbrock), (x,), (v,))[1]


# ---------------------------------------------------------------- the packages


def artifacts() -> Rows:
    """Calls of artifacts on NumPy arrays and on device arrays."""
    ours = nm.trace(nm.grad(rosenbrock), nm.spec(N, "f64"), name="slope").lower().compile(nm.CPU("host"))
    theirs = jax.jit(jax.grad(rosenbrock))
    jitted = nm.jit(nm.grad(rosenbrock))
    wait = lambda x: theirs(x).block_until_ready()  # noqa: E731
    return {
        "artifact, arrays of NumPy": (over(lambda x: np.asarray(ours(x))), over(of_jax(jax.grad(rosenbrock)))),
        "artifact, arrays of the device": (over(ours, make=nm.device_put), over(wait, make=jax.device_put)),
        "nm.jit, arrays of the device": (over(jitted, make=nm.device_put), over(wait, make=jax.device_put)),
    }


def torch_functions() -> Rows:
    """Forward and backward passes of autograd, compared with eager PyTorch."""
    import torch

    wrapped = nm.interop.torch.function(rosenbrock, target=nm.CPU())
    v = torch.from_numpy(V)

    def slope(f: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: torch.autograd.grad(f(x), x)[0]

    def second(f: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: torch.autograd.grad(torch.autograd.grad(f(x), x, create_graph=True)[0], x, v)[0]

    make = lambda x: torch.tensor(x, requires_grad=True)  # noqa: E731
    kinds = {
        "forward": lambda f: f,
        "forward and backward": slope,
        "double backward, all three passes": second,
        "torch.func.grad": torch.func.grad,
    }
    return {name: (over(kind(wrapped), make=make), over(kind(rosenbrock), make=make)) for name, kind in kinds.items()}


def jax_functions() -> Rows:
    """A JAX primitive outside jit, and as a callback inside jit, compared with code that JAX compiles."""
    wrapped = nm.interop.jax.function(rosenbrock, target=nm.CPU())
    wait = jax.block_until_ready
    value, slope = jax.jit(rosenbrock), jax.jit(jax.grad(rosenbrock))
    inner, inner_slope, outer = jax.jit(wrapped), jax.jit(jax.grad(wrapped)), jax.grad(value)
    along = jax.jit(lambda x, v: jax.jvp(jax.grad(wrapped), (x,), (v,))[1])
    theirs, v = jax.jit(product), jnp.asarray(V)
    pairs = {
        "forward": (wrapped, value),
        "forward in jit": (inner, value),
        "gradient": (jax.grad(wrapped), outer),
        "gradient in jit": (inner_slope, slope),
    }
    rows = {name: tuple(over(lambda x, f=f: wait(f(x)), make=jax.device_put) for f in pair) for name, pair in pairs.items()}
    rows["HVP in jit"] = tuple(over(lambda x, f=f: wait(f(x, v)), make=jax.device_put) for f in (along, theirs))
    return rows


def scipy_callbacks() -> Rows:
    """The values and derivatives that a solver of SciPy requests at a new point."""
    target = nm.CPU()
    first, second = Objective(rosenbrock, POINTS[0], order=1, target=target), Objective(rosenbrock, POINTS[0], target=target)
    dense = Objective(rosenbrock, POINTS[0], form="dense", target=target)
    system = Residuals(steps, POINTS[0], form="dense", target=target)
    both, theirs = of_jax(rosenbrock), of_jax(jax.grad(rosenbrock))
    hvp, hess = of_jax(product), of_jax(jax.hessian(rosenbrock))
    value, jac = of_jax(steps), of_jax(jax.jacfwd(steps))
    at = lambda *calls: over(lambda x: [call(x) for call in calls])  # noqa: E731
    return {
        "fun and jac": (at(first.fun, first.jac), at(both, theirs)),
        "fun, jac and hessp": (at(second.fun, second.jac, lambda x: second.hessp(x, V)), at(both, theirs, lambda x: hvp(x, V))),
        "fun, jac and hess": (at(dense.fun, dense.jac, dense.dense), at(both, theirs, hess)),
        "residuals and their jac": (at(system.fun, system.jac), at(value, jac)),
    }


def ipopt_callbacks() -> Rows:
    """The five functions that Ipopt calls."""
    ours = Problem(rosenbrock, nm.spec(N, "f64"), constraints=steps)
    lower = np.tril_indices(N)
    whole = of_jax(lambda x, s, w: jax.hessian(lambda y: s * rosenbrock(y) + w @ steps(y))(x)[lower])
    return {
        "objective": (over(ours.objective), over(of_jax(rosenbrock))),
        "gradient": (over(ours.gradient), over(of_jax(jax.grad(rosenbrock)))),
        "constraints": (over(ours.constraints), over(of_jax(steps))),
        "jacobian": (over(ours.jacobian), over(of_jax(jax.jacfwd(steps)))),
        "hessian": (over(ours.hessian, WEIGHTS, 1.0), over(whole, np.float64(1), WEIGHTS)),
    }


def casadi_functions() -> Rows:
    """An external Python function, compared with an expression of CasADi."""
    import casadi

    external = nm.interop.casadi.external(steps, nm.spec(N, "f64"), name="steps")
    x = casadi.SX.sym("x", N)
    own = casadi.Function("own", [x], [x[1:] - x[:-1] ** 2])
    return {"forward": (over(external), over(own)), "Jacobian": (over(_slope(external)), over(_slope(own)))}


def _slope(f: Any) -> Any:
    import casadi

    x = casadi.MX.sym("x", N)
    return casadi.Function("slope", [x], [casadi.jacobian(f(x), x)])


def pytensor_functions() -> Rows:
    """A graph of one Op, compared with a graph of PyTensor operations."""
    import pytensor
    import pytensor.tensor as pt

    wrapped = nm.interop.pytensor.function(rosenbrock, target=nm.CPU())
    rows, grad = {}, pytensor.grad
    kinds = {"forward": lambda y, x: y, "gradient": grad, "forward and gradient": lambda y, x: [y, grad(y, x)]}
    for name, kind in kinds.items():
        sides = []
        for f in (wrapped, rosenbrock):
            x = pt.vector("x", shape=(N,), dtype="float64")
            sides.append(over(pytensor.function([x], kind(f(x), x))))
        rows[name] = tuple(sides)
    return rows


CASES = [
    Case("artifact", "jax", artifacts),
    Case("PyTorch", "torch", torch_functions),
    Case("JAX", "jax", jax_functions),
    Case("SciPy", "scipy", scipy_callbacks),
    Case("Ipopt", "jax", ipopt_callbacks),
    Case("CasADi", "casadi", casadi_functions),
    Case("PyTensor", "pytensor", pytensor_functions),
]


def main() -> int:
    """Measures the installed packages; returns 1 if the two sides of a row differ."""
    options, chosen = parse_words(__doc__.partition("\n")[0], "packages", "fewer repetitions", CASES)
    jax.config.update("jax_enable_x64", True)
    table = Table(title="Microseconds of a call", title_justify="left")
    for column in ("package", "call", "ours", "theirs", "difference"):
        table.add_column(column, justify="right" if len(table.columns) > 1 else "left")
    results, wrong = [], []
    for case in chosen:
        if not is_installed(case.package):
            console.print(f"{case.title}: not installed")
            continue
        for name, (ours, theirs) in case.rows().items():
            if not _is_equal(ours(), theirs()):
                wrong.append(f"{case.title}, {name}")
            times = interleaved({"ours": ours, "theirs": theirs}, options.quick)
            results.append(Result(case.title, name, **times))
            cells = [f"{t * 1e6:.1f}" for t in (times["ours"], times["theirs"], times["ours"] - times["theirs"])]
            table.add_row(case.title, name, *cells)
    console.print(table)
    save(options.out / "overheads.json", {"results": [asdict(r) for r in results]})
    for row in wrong:
        console.print(f"[bold red]WRONG[/bold red] {row}")
    return 1 if wrong else 0


def _is_equal(ours: Any, theirs: Any) -> bool:
    """Compares results; only sums of sparse matrices are compared, because the order of their entries may differ."""
    if isinstance(ours, (list, tuple)):
        return all(map(_is_equal, ours, theirs))
    return bool(np.isclose(_total(ours), _total(theirs), rtol=1e-9))


def _total(x: Any) -> float:
    kinds = (("detach", lambda: x.detach().numpy()), ("full", lambda: x.full()), ("toarray", lambda: x.toarray()))
    return float(np.sum(next((read() for name, read in kinds if hasattr(x, name)), x)))


if __name__ == "__main__":
    sys.exit(main())
