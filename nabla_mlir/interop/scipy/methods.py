"""The arguments that each method of `scipy.optimize.minimize` accepts."""

from __future__ import annotations

from dataclasses import dataclass

from nabla_mlir.base.errors import TraceError, user_frame


@dataclass(frozen=True)
class Method:
    """The arguments that a method of SciPy accepts.

    Attributes:
      gradient: True if it uses gradients.
      hessians: the forms of the Hessian that it accepts, the default first: "products" is a function of
        (x, v), "operator" a `LinearOperator`, "sparse" a matrix of `scipy.sparse`, "dense" an array, "update" a strategy of
        SciPy's that approximates it by gradients, such as `scipy.optimize.SR1()`.
      bounds, constraints: True if it accepts them.
    """

    gradient: bool = True
    hessians: tuple[str, ...] = ()
    bounds: bool = False
    constraints: bool = False


# The methods by their names in lower case, which SciPy compares. A test checks the entries against SciPy.
METHODS = {
    "nelder-mead": Method(gradient=False, bounds=True),
    "powell": Method(gradient=False, bounds=True),
    "cobyla": Method(gradient=False, bounds=True, constraints=True),
    "cobyqa": Method(gradient=False, bounds=True, constraints=True),
    "cg": Method(),
    "bfgs": Method(),
    "l-bfgs-b": Method(bounds=True),
    "tnc": Method(bounds=True),
    "slsqp": Method(bounds=True, constraints=True),
    "newton-cg": Method(hessians=("products", "operator", "sparse", "dense", "update")),
    "trust-ncg": Method(hessians=("products", "dense", "update")),
    "trust-krylov": Method(hessians=("products", "dense", "update")),
    "trust-exact": Method(hessians=("dense",)),
    "dogleg": Method(hessians=("dense",)),
    "trust-constr": Method(hessians=("sparse", "operator", "products", "dense", "update"), bounds=True, constraints=True),
}
# The entry of a method that is a function of the user.
CUSTOM = Method(hessians=("operator", "products", "sparse", "dense"), bounds=True, constraints=True)


def method_named(name: str) -> Method:
    """The entry of a method of SciPy in the table of methods.

    Args:
      name: the name in SciPy, in any case.

    Raises:
      TraceError: the method does not exist.
    """
    if name.lower() not in METHODS:
        raise TraceError(f"minimize requires a method among {', '.join(METHODS)}, got {name!r}.", where=user_frame())
    return METHODS[name.lower()]
