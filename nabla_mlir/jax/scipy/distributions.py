"""Builds distributions from a few formulas: densities, distribution functions and their inverses, with location and scale."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from nabla_mlir.base.errors import TraceError, user_frame
from nabla_mlir.numpy.logic import where
from nabla_mlir.numpy.operands import inexacts
from nabla_mlir.numpy.ufuncs import exp, floor, log, log1p
from nabla_mlir.ops.autodiff import stop_gradient
from nabla_mlir.staging.eager import library
from nabla_mlir.table.narrowing import narrowing
from nabla_mlir.table.tensor import Tensor

Formula = Callable[..., Any]
_WHAT = {
    "logpdf": "The logarithm of the density of {}.",
    "pdf": "The density of {}.",
    "logpmf": "The logarithm of the probability of each value of {}.",
    "pmf": "The probability of each value of {}.",
    "cdf": "The distribution function of {}.",
    "logcdf": "The logarithm of the distribution function of {}.",
    "sf": "One less the distribution function of {}.",
    "logsf": "The logarithm of one less the distribution function of {}.",
    "ppf": "The inverse of the distribution function of {}.",
    "isf": "The inverse of one less the distribution function of {}.",
    "entropy": "The entropy of {}.",
}


class Distribution:
    """A distribution whose functions are attributes, such as ``norm.logpdf(x, loc, scale)``.

    Args:
      name: the name in messages and documentation.
      shapes: the names of the parameters besides location and scale, in order; "a=1" is a parameter with a default.
      is_discrete: True for a distribution of whole numbers.
      has_location, has_scale: True if the functions have the parameters `loc` and `scale`.
      has_lines: True if a formula may have a constant slope, which is replaced by NaN at NaN.
      formulas: functions of the standardized variable and the shapes, by name: "log" (the logarithm of the density or of the
        probability), "outside" (True where the density is 0; never for NaN), "valid" (of the shapes alone: False where the
        functions are NaN), "cdf", "sf", "logcdf", "logsf", "ppf", "isf", "entropy". Functions without a formula are computed
        from the others.
      support: the ends of the interval in which the formulas of the distribution function hold; those of a distribution of
        whole numbers get whole numbers.
    """

    def __init__(
        self,
        name: str,
        shapes: str = "",
        *,
        is_discrete: bool = False,
        has_location: bool = True,
        has_scale: bool = True,
        has_lines: bool = False,
        support: tuple[float, float] = (-np.inf, np.inf),
        **formulas: Formula,
    ):
        """Makes the public functions for which the formulas suffice."""
        self.name = name
        self._formulas, self._support = formulas, support
        self._shapes = [part.partition("=")[::2] for part in shapes.split()]
        self._has_location, self._has_scale = has_location, has_scale and not is_discrete
        density = "pmf" if is_discrete else "pdf"
        self.is_discrete, self._has_lines = is_discrete, has_lines
        names = [f"log{density}", density]
        if "cdf" in formulas or "sf" in formulas:
            names += ["cdf", "sf", "logcdf", "logsf"]
        if "ppf" in formulas or "isf" in formulas:
            names += ["ppf", "isf"]
        names += ["entropy"] if "entropy" in formulas else []
        for each in names:
            setattr(self, each, self._function(each))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the distribution {self.name!r} has no function {name!r}")

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def _function(self, name: str) -> Callable[..., Any]:
        """The public function with a name, such as `logpdf`."""
        first = {"ppf": ["q"], "isf": ["q"], "entropy": []}.get(name, ["k" if self.is_discrete else "x"])
        names_and_defaults = [(n, None) for n in first] + [(n, float(v) if v else None) for n, v in self._shapes]
        names_and_defaults += [("loc", 0)] if self._has_location else []
        names_and_defaults += [("scale", 1)] if self._has_scale else []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature(
            [inspect.Parameter(n, kind, default=inspect.Parameter.empty if v is None else v) for n, v in names_and_defaults]
        )

        def f(*args: Any) -> Tensor:
            """The value of the function; the last arguments are the location and the scale if the distribution has them, the others
            its shapes.
            """
            values = list(inexacts(name, *args))
            scale = values.pop() if self._has_scale else 1.0
            location = values.pop() if self._has_location else 0.0
            return self._value(name, values, location, scale)

        run = library(f)

        def call(*args: Any, **kwargs: Any) -> Any:
            """The function on arguments by position or name, under JAX's rules for dtypes (`narrowing`)."""
            bound = _bound(f"{self.name}.{name}", signature, args, kwargs)
            with narrowing():
                return run(*bound)

        call.__name__, call.__qualname__ = name, f"{self.name}.{name}"
        call.__doc__ = _WHAT[name].format(self.name)
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    def _value(self, name: str, values: list[Any], location: Any, scale: Any) -> Any:
        """The function `name` at some values; NaN where the shapes are not valid."""
        out, valid = self._formula(name, values, location, scale), self._formulas.get("valid")
        if self._has_lines and name != "entropy":
            out = where(values[0] == values[0], out, values[0] * values[0])
        return out if valid is None else where(valid(*values[len(values) - len(self._shapes) :]), out, np.nan)

    def _formula(self, name: str, values: list[Any], location: Any, scale: Any) -> Any:
        """The function `name` at some values, from the formulas of the distribution with location 0 and scale 1."""
        if name in ("ppf", "isf"):
            q, *shapes = values
            return self._quantile(name, q, shapes) * scale + location
        if name == "entropy":
            return self._formulas["entropy"](*values) + log(scale)
        x, *shapes = values
        z = (x - location) / scale if self._has_scale else x - location
        if name.startswith("log") and name[3:] in ("pdf", "pmf"):
            return self._log_density(z, shapes, scale)
        if name in ("pdf", "pmf"):
            return exp(self._log_density(z, shapes, scale))
        return self._within(name, z, shapes)

    def _log_density(self, z: Any, shapes: list[Any], scale: Any) -> Any:
        """The logarithm of the density at the standardised variable z; -inf outside of the support.

        `shapes` are the parameters of the distribution's shape, and `scale` is the scale of the variable.
        """
        outside = self._formulas.get("outside")
        out = self._formulas["log"](z, *shapes) - (log(scale) if self._has_scale else 0.0)
        # outside the support the formula is finite unless a shape is NaN; the result must be -inf
        return out if outside is None else where(outside(z, *shapes), stop_gradient(out) - np.inf, out)

    def _within(self, name: str, z: Any, shapes: list[Any]) -> Any:
        """The distribution function `name` (cdf, sf, logcdf or logsf) at z: by its formula in the support, by constants beyond it.

        `shapes` are the parameters of the distribution's shape.
        """
        low, high = self._support
        z = floor(z) if self.is_discrete else z
        constants = {"cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-np.inf, 0.0), "logsf": (0.0, -np.inf)}[name]
        beyond = [(z < low, constants[0])] if np.isfinite(low) else []
        beyond += [(z > high, constants[1])] if np.isfinite(high) else []
        inner = low + 1.0 if high == np.inf else 0.5 * (low + high)  # at the ends a formula may have infinite slopes
        for outside, _ in beyond:
            z = where(outside, inner, z)
        out = self._probability(name, z, shapes)
        for outside, constant in beyond:
            out = where(outside, constant, out)
        return out

    def _probability(self, name: str, z: Any, shapes: list[Any]) -> Any:
        """The distribution function `name` (cdf, sf, logcdf or logsf) at z, by its formula, or from the formula of another one.

        `shapes` are the parameters of the distribution's shape.
        """
        if name in self._formulas:
            return self._formulas[name](z, *shapes)
        if name in ("cdf", "sf"):
            return 1.0 - self._formulas["sf" if name == "cdf" else "cdf"](z, *shapes)
        plain_name = name[3:]
        own, other = (self._formulas.get(n) for n in (plain_name, "sf" if plain_name == "cdf" else "cdf"))
        if own is None or other is None:
            return log(own(z, *shapes)) if own else log1p(-other(z, *shapes))  # type: ignore[misc]
        return log_probability(own(z, *shapes), other(z, *shapes))

    def _quantile(self, name: str, q: Any, shapes: list[Any]) -> Any:
        """The quantile function `name` (ppf or isf) at the probability q, from its formula or from that of the other one.

        `shapes` are the parameters of the distribution's shape.
        """
        if name in self._formulas:
            return self._formulas[name](q, *shapes)
        return self._formulas["isf" if name == "ppf" else "ppf"](1.0 - q, *shapes)


def log_probability(probability: Any, complement: Any) -> Any:
    """The logarithm of a probability, from its complement if it is near 1, where the logarithm is small."""
    high = probability > 0.5
    return where(high, log1p(-where(high, complement, 0.5)), log(where(high, 0.5, probability)))


def _bound(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> list[Any]:
    """The arguments of a call of `name` in the order of the signature, with its defaults; raises TraceError if they do not fit."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(f"{name} requires the arguments {signature}, got others: {error}.", where=user_frame()) from None
    bound.apply_defaults()
    return list(bound.args)
