"""Random numbers: keys and distributions, with the names and the numbers of `jax.random`.

Equal keys give equal numbers: bits, uniform numbers and integers are equal to the last bit, other numbers up to rounding. A key
is a `KeyArray` (from `key`) or its two words as an array of uint32 (from `PRNGKey`); all functions accept both, also in `jit`,
under `vmap` and in artifacts. A derivative by a parameter treats the random bits as constants.
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from nabla_mlir.base.names import no_attribute as _no_attribute
from nabla_mlir.random.choices import categorical as categorical
from nabla_mlir.random.choices import choice as choice
from nabla_mlir.random.choices import permutation as permutation
from nabla_mlir.random.counts import binomial as binomial
from nabla_mlir.random.counts import geometric as geometric
from nabla_mlir.random.counts import multinomial as multinomial
from nabla_mlir.random.counts import poisson as poisson
from nabla_mlir.random.gammas import ball as ball
from nabla_mlir.random.gammas import beta as beta
from nabla_mlir.random.gammas import chisquare as chisquare
from nabla_mlir.random.gammas import dirichlet as dirichlet
from nabla_mlir.random.gammas import f as f
from nabla_mlir.random.gammas import gamma as gamma
from nabla_mlir.random.gammas import generalized_normal as generalized_normal
from nabla_mlir.random.gammas import loggamma as loggamma
from nabla_mlir.random.gammas import t as t
from nabla_mlir.random.inverses import cauchy as cauchy
from nabla_mlir.random.inverses import exponential as exponential
from nabla_mlir.random.inverses import gumbel as gumbel
from nabla_mlir.random.inverses import laplace as laplace
from nabla_mlir.random.inverses import logistic as logistic
from nabla_mlir.random.inverses import pareto as pareto
from nabla_mlir.random.inverses import rayleigh as rayleigh
from nabla_mlir.random.inverses import triangular as triangular
from nabla_mlir.random.inverses import weibull_min as weibull_min
from nabla_mlir.random.keys import KeyArray as KeyArray
from nabla_mlir.random.normals import double_sided_maxwell as double_sided_maxwell
from nabla_mlir.random.normals import lognormal as lognormal
from nabla_mlir.random.normals import maxwell as maxwell
from nabla_mlir.random.normals import multivariate_normal as multivariate_normal
from nabla_mlir.random.normals import normal as normal
from nabla_mlir.random.normals import orthogonal as orthogonal
from nabla_mlir.random.normals import truncated_normal as truncated_normal
from nabla_mlir.random.normals import wald as wald
from nabla_mlir.random.seeds import PRNGKey as PRNGKey
from nabla_mlir.random.seeds import clone as clone
from nabla_mlir.random.seeds import fold_in as fold_in
from nabla_mlir.random.seeds import key as key
from nabla_mlir.random.seeds import key_data as key_data
from nabla_mlir.random.seeds import key_dtype as key_dtype
from nabla_mlir.random.seeds import key_impl as key_impl
from nabla_mlir.random.seeds import split as split
from nabla_mlir.random.seeds import wrap_key_data as wrap_key_data
from nabla_mlir.random.uniforms import bernoulli as bernoulli
from nabla_mlir.random.uniforms import bits as bits
from nabla_mlir.random.uniforms import rademacher as rademacher
from nabla_mlir.random.uniforms import randint as randint
from nabla_mlir.random.uniforms import uniform as uniform

if not _TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> _Any:
        """Raises AttributeError, with the path of the name if it is elsewhere."""
        raise _no_attribute(f"module {__name__!r}", name, _sys.modules[__name__])
