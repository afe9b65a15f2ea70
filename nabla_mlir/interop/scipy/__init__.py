"""Solvers of SciPy over pytrees, with exact derivatives in the form that each accepts."""

from nabla_mlir.interop.scipy.differential import solve_bvp as solve_bvp
from nabla_mlir.interop.scipy.differential import solve_ivp as solve_ivp
from nabla_mlir.interop.scipy.equations import curve_fit as curve_fit
from nabla_mlir.interop.scipy.equations import least_squares as least_squares
from nabla_mlir.interop.scipy.equations import root as root
from nabla_mlir.interop.scipy.history import History as History
from nabla_mlir.interop.scipy.limits import NonlinearConstraint as NonlinearConstraint
from nabla_mlir.interop.scipy.methods import METHODS as METHODS
from nabla_mlir.interop.scipy.minimization import minimize as minimize
from nabla_mlir.interop.scipy.problems import Objective as Objective
from nabla_mlir.interop.scipy.problems import Residuals as Residuals
