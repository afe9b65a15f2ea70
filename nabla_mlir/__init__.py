"""nabla_mlir: differentiable programs as StableHLO, compiled ahead of time by IREE.

Names are imported when they are first used, so that `nabla_mlir.runtime` runs where only `iree-base-runtime` and
NumPy are installed, and starts in a fraction of the time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nabla_mlir import ad_checkpoint as ad_checkpoint
    from nabla_mlir import core as core
    from nabla_mlir import custom_batching as custom_batching
    from nabla_mlir import custom_derivatives as custom_derivatives
    from nabla_mlir import debug as debug
    from nabla_mlir import distributed as distributed
    from nabla_mlir import dlpack as dlpack
    from nabla_mlir import dtypes as dtypes
    from nabla_mlir import errors as errors
    from nabla_mlir import experimental as experimental
    from nabla_mlir import flatten_util as flatten_util
    from nabla_mlir import image as image
    from nabla_mlir import interop as interop
    from nabla_mlir import lax as lax
    from nabla_mlir import nn as nn
    from nabla_mlir import numpy as numpy
    from nabla_mlir import ops as ops
    from nabla_mlir import random as random
    from nabla_mlir import scipy as scipy
    from nabla_mlir import sparse as sparse
    from nabla_mlir import targets as targets
    from nabla_mlir import test_util as test_util
    from nabla_mlir import tree as tree
    from nabla_mlir import tree_util as tree_util
    from nabla_mlir import typing as typing
    from nabla_mlir.compiling.checking import set_checking as set_checking
    from nabla_mlir.dtypes import float0 as float0
    from nabla_mlir.environment import block_until_ready as block_until_ready
    from nabla_mlir.environment import checking_leaks as checking_leaks
    from nabla_mlir.environment import config as config
    from nabla_mlir.environment import debug_infs as debug_infs
    from nabla_mlir.environment import default_backend as default_backend
    from nabla_mlir.environment import default_device as default_device
    from nabla_mlir.environment import default_matmul_precision as default_matmul_precision
    from nabla_mlir.environment import device_count as device_count
    from nabla_mlir.environment import device_get as device_get
    from nabla_mlir.environment import device_put as device_put
    from nabla_mlir.environment import devices as devices
    from nabla_mlir.environment import effects_barrier as effects_barrier
    from nabla_mlir.environment import enable_x64 as enable_x64
    from nabla_mlir.environment import local_device_count as local_device_count
    from nabla_mlir.environment import local_devices as local_devices
    from nabla_mlir.environment import named_call as named_call
    from nabla_mlir.environment import named_scope as named_scope
    from nabla_mlir.environment import process_count as process_count
    from nabla_mlir.environment import process_index as process_index
    from nabla_mlir.environment import typeof as typeof
    from nabla_mlir.explorer import explain as explain
    from nabla_mlir.interop.jax import from_jax as from_jax
    from nabla_mlir.interop.onnx import from_onnx as from_onnx
    from nabla_mlir.interop.scipy import minimize as minimize
    from nabla_mlir.interop.stablehlo import from_stablehlo as from_stablehlo
    from nabla_mlir.interop.torch import from_torch as from_torch
    from nabla_mlir.interpreter.target import Interpreter as Interpreter
    from nabla_mlir.numpy.segments import segment_max as segment_max
    from nabla_mlir.numpy.segments import segment_min as segment_min
    from nabla_mlir.numpy.segments import segment_prod as segment_prod
    from nabla_mlir.numpy.segments import segment_sum as segment_sum
    from nabla_mlir.ops.custom_call import register_custom_call as register_custom_call
    from nabla_mlir.prepared.checks import check_hvp as check_hvp
    from nabla_mlir.prepared.estimates import hutch_plus_plus as hutch_plus_plus
    from nabla_mlir.prepared.estimates import hutchinson as hutchinson
    from nabla_mlir.prepared.estimates import stochastic_lanczos as stochastic_lanczos
    from nabla_mlir.prepared.modules import empirical_fisher_module as empirical_fisher_module
    from nabla_mlir.prepared.modules import fisher_module as fisher_module
    from nabla_mlir.prepared.modules import ggnvp_module as ggnvp_module
    from nabla_mlir.prepared.modules import hvp_module as hvp_module
    from nabla_mlir.prepared.modules import jacobian_module as jacobian_module
    from nabla_mlir.prepared.operators import HessianOperator as HessianOperator
    from nabla_mlir.prepared.operators import JacobianOperator as JacobianOperator
    from nabla_mlir.prepared.sparse_modules import sparse_hessian_module as sparse_hessian_module
    from nabla_mlir.prepared.sparse_modules import sparse_jacobian_module as sparse_jacobian_module
    from nabla_mlir.prepared.sum_operator import SumOperator as SumOperator
    from nabla_mlir.pytree import register_dataclass as register_dataclass
    from nabla_mlir.runtime import Array as Array
    from nabla_mlir.runtime import load as load
    from nabla_mlir.runtime import time_limit as time_limit
    from nabla_mlir.staging.abstract import ShapeDtypeStruct as ShapeDtypeStruct
    from nabla_mlir.staging.abstract import eval_shape as eval_shape
    from nabla_mlir.staging.abstract import make_jaxpr as make_jaxpr
    from nabla_mlir.staging.compiled import Compiled as Compiled
    from nabla_mlir.staging.execution import debug_nans as debug_nans
    from nabla_mlir.staging.execution import set_execution as set_execution
    from nabla_mlir.staging.jit import clear_caches as clear_caches
    from nabla_mlir.staging.jit import disable_jit as disable_jit
    from nabla_mlir.staging.jit import jit as jit
    from nabla_mlir.staging.specs import spec as spec
    from nabla_mlir.staging.stages import Lowered as Lowered
    from nabla_mlir.staging.stages import Traced as Traced
    from nabla_mlir.staging.stages import module as module
    from nabla_mlir.staging.stages import trace as trace
    from nabla_mlir.staging.static_library import save_static_library as save_static_library
    from nabla_mlir.staging.tracing import ensure_compile_time_eval as ensure_compile_time_eval
    from nabla_mlir.table.promotion import set_default_dtypes as set_default_dtypes
    from nabla_mlir.table.tensor import Tensor as Tensor
    from nabla_mlir.targets import CPU as CPU
    from nabla_mlir.targets import CUDA as CUDA
    from nabla_mlir.targets import Vulkan as Vulkan
    from nabla_mlir.transforms import empirical_fishervp as empirical_fishervp
    from nabla_mlir.transforms import fishervp as fishervp
    from nabla_mlir.transforms import ggnvp as ggnvp
    from nabla_mlir.transforms import grad as grad
    from nabla_mlir.transforms import hessian as hessian
    from nabla_mlir.transforms import hvp as hvp
    from nabla_mlir.transforms import jacfwd as jacfwd
    from nabla_mlir.transforms import jacrev as jacrev
    from nabla_mlir.transforms import jvp as jvp
    from nabla_mlir.transforms import linearize as linearize
    from nabla_mlir.transforms import physical as physical
    from nabla_mlir.transforms import stop_gradient as stop_gradient
    from nabla_mlir.transforms import value_and_grad as value_and_grad
    from nabla_mlir.transforms import vjp as vjp
    from nabla_mlir.transforms import vmap as vmap
    from nabla_mlir.transforms.callbacks import pure_callback as pure_callback
    from nabla_mlir.transforms.calls import custom_call as custom_call
    from nabla_mlir.transforms.checkpointing import checkpoint as checkpoint
    from nabla_mlir.transforms.checkpointing import checkpoint_name as checkpoint_name
    from nabla_mlir.transforms.checkpointing import checkpoint_policies as checkpoint_policies
    from nabla_mlir.transforms.checkpointing import remat as remat
    from nabla_mlir.transforms.closures import closure_convert as closure_convert
    from nabla_mlir.transforms.collectives import all_gather as all_gather
    from nabla_mlir.transforms.collectives import all_to_all as all_to_all
    from nabla_mlir.transforms.collectives import axis_index as axis_index
    from nabla_mlir.transforms.collectives import axis_size as axis_size
    from nabla_mlir.transforms.collectives import pbroadcast as pbroadcast
    from nabla_mlir.transforms.collectives import pmax as pmax
    from nabla_mlir.transforms.collectives import pmean as pmean
    from nabla_mlir.transforms.collectives import pmin as pmin
    from nabla_mlir.transforms.collectives import ppermute as ppermute
    from nabla_mlir.transforms.collectives import pshuffle as pshuffle
    from nabla_mlir.transforms.collectives import psum as psum
    from nabla_mlir.transforms.collectives import psum_scatter as psum_scatter
    from nabla_mlir.transforms.collectives import pswapaxes as pswapaxes
    from nabla_mlir.transforms.control import cond as cond
    from nabla_mlir.transforms.control import fori_loop as fori_loop
    from nabla_mlir.transforms.control import switch as switch
    from nabla_mlir.transforms.control import while_loop as while_loop
    from nabla_mlir.transforms.custom import custom_jvp as custom_jvp
    from nabla_mlir.transforms.custom import custom_vjp as custom_vjp
    from nabla_mlir.transforms.implicit import custom_linear_solve as custom_linear_solve
    from nabla_mlir.transforms.implicit import custom_root as custom_root
    from nabla_mlir.transforms.jacobians import jacobian as jacobian
    from nabla_mlir.transforms.scans import associative_scan as associative_scan
    from nabla_mlir.transforms.scans import map as map
    from nabla_mlir.transforms.scans import scan as scan
    from nabla_mlir.transforms.special import custom_gradient as custom_gradient
    from nabla_mlir.transforms.special import hessian_diagonal as hessian_diagonal
    from nabla_mlir.transforms.special import laplacian as laplacian
    from nabla_mlir.transforms.special import linear_transpose as linear_transpose
    from nabla_mlir.transforms.vectorized import VectorizedArray as VectorizedArray
    from nabla_mlir.transforms.vectorized import broadcast_vectors as broadcast_vectors
    from nabla_mlir.transforms.vectorized import devectorize as devectorize
    from nabla_mlir.transforms.vectorized import reshape_vectors as reshape_vectors
    from nabla_mlir.transforms.vectorized import revectorize as revectorize
    from nabla_mlir.transforms.vectorized import vectorize as vectorize

# Where each public name is defined; None for a module of that name. A test holds that the block above says the same.
_HOMES: dict[str, str | None] = {
    "ad_checkpoint": None, "core": None, "custom_batching": None, "custom_derivatives": None, "debug": None,
    "distributed": None, "dlpack": None, "dtypes": None, "errors": None, "experimental": None,
    "flatten_util": None, "image": None, "interop": None, "lax": None, "nn": None, "numpy": None,
    "ops": None, "random": None,
    "scipy": None, "sparse": None, "targets": None, "test_util": None, "tree": None, "tree_util": None, "typing": None,
    "explain": "explorer",
    "from_jax": "interop.jax",
    "from_stablehlo": "interop.stablehlo",
    "minimize": "interop.scipy",
    "from_onnx": "interop.onnx",
    "from_torch": "interop.torch",
    "Interpreter": "interpreter.target",
    "register_custom_call": "ops.custom_call",
    "check_hvp": "prepared.checks",
    "hutch_plus_plus": "prepared.estimates", "hutchinson": "prepared.estimates", "stochastic_lanczos": "prepared.estimates",
    "empirical_fisher_module": "prepared.modules", "fisher_module": "prepared.modules",
    "ggnvp_module": "prepared.modules", "hvp_module": "prepared.modules", "jacobian_module": "prepared.modules",
    "HessianOperator": "prepared.operators", "JacobianOperator": "prepared.operators",
    "sparse_hessian_module": "prepared.sparse_modules", "sparse_jacobian_module": "prepared.sparse_modules",
    "SumOperator": "prepared.sum_operator",
    "register_dataclass": "pytree",
    "Array": "runtime", "load": "runtime", "time_limit": "runtime",
    "Compiled": "staging.compiled",
    "jit": "staging.jit",
    "spec": "staging.specs",
    "Lowered": "staging.stages", "Traced": "staging.stages", "module": "staging.stages", "trace": "staging.stages",
    "save_static_library": "staging.static_library",
    "debug_nans": "staging.execution", "set_execution": "staging.execution", "set_checking": "compiling.checking",
    "set_default_dtypes": "table.promotion",
    "Tensor": "table.tensor",
    "CPU": "targets", "CUDA": "targets", "Vulkan": "targets",
    "empirical_fishervp": "transforms", "fishervp": "transforms", "ggnvp": "transforms", "grad": "transforms",
    "hessian": "transforms", "hvp": "transforms", "jacfwd": "transforms", "jacrev": "transforms", "jvp": "transforms",
    "linearize": "transforms", "physical": "transforms", "stop_gradient": "transforms", "value_and_grad": "transforms",
    "vjp": "transforms", "vmap": "transforms",
    "custom_call": "transforms.calls", "pure_callback": "transforms.callbacks",
    "checkpoint": "transforms.checkpointing", "checkpoint_name": "transforms.checkpointing",
    "checkpoint_policies": "transforms.checkpointing", "remat": "transforms.checkpointing",
    "closure_convert": "transforms.closures", "ensure_compile_time_eval": "staging.tracing",
    "all_gather": "transforms.collectives", "axis_index": "transforms.collectives",
    "axis_size": "transforms.collectives", "pmax": "transforms.collectives", "pmean": "transforms.collectives",
    "pmin": "transforms.collectives", "psum": "transforms.collectives",
    "cond": "transforms.control", "fori_loop": "transforms.control", "switch": "transforms.control",
    "while_loop": "transforms.control",
    "custom_jvp": "transforms.custom", "custom_vjp": "transforms.custom",
    "custom_linear_solve": "transforms.implicit", "custom_root": "transforms.implicit",
    "associative_scan": "transforms.scans", "map": "transforms.scans", "scan": "transforms.scans",
    "VectorizedArray": "transforms.vectorized", "devectorize": "transforms.vectorized",
    "reshape_vectors": "transforms.vectorized", "revectorize": "transforms.vectorized",
    "vectorize": "transforms.vectorized", "broadcast_vectors": "transforms.vectorized",
    "block_until_ready": "environment", "config": "environment", "default_backend": "environment",
    "device_count": "environment", "device_get": "environment", "device_put": "environment", "devices": "environment",
    "default_matmul_precision": "environment", "checking_leaks": "environment", "debug_infs": "environment",
    "default_device": "environment",
    "effects_barrier": "environment", "enable_x64": "environment", "local_device_count": "environment",
    "local_devices": "environment", "named_call": "environment", "named_scope": "environment", "process_count": "environment",
    "process_index": "environment", "typeof": "environment",
    "segment_max": "numpy.segments", "segment_min": "numpy.segments", "segment_prod": "numpy.segments",
    "segment_sum": "numpy.segments",
    "ShapeDtypeStruct": "staging.abstract", "eval_shape": "staging.abstract", "make_jaxpr": "staging.abstract",
    "float0": "dtypes", "clear_caches": "staging.jit", "disable_jit": "staging.jit",
    "all_to_all": "transforms.collectives", "pbroadcast": "transforms.collectives", "ppermute": "transforms.collectives",
    "pshuffle": "transforms.collectives", "psum_scatter": "transforms.collectives", "pswapaxes": "transforms.collectives",
    "jacobian": "transforms.jacobians",
    "custom_gradient": "transforms.special", "hessian_diagonal": "transforms.special", "laplacian": "transforms.special",
    "linear_transpose": "transforms.special",
}  # fmt: skip

# What runs without the compiler.
_LIGHT = {"prepared.estimates", "prepared.operators", "prepared.sum_operator", "runtime", "targets"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nabla_mlir' has no attribute {name!r}")
    home = _HOMES[name]
    try:
        if home not in _LIGHT and name not in ("errors", "targets"):
            importlib.import_module("nabla_mlir.numpy")  # gives tensors and arrays their methods
        module = importlib.import_module(f"nabla_mlir.{home or name}")
    except ModuleNotFoundError as error:
        if error.name not in ("iree.compiler", "optree"):
            raise
        message = (
            f"nm.{name} requires the compiler, got an installation of the runtime alone ({error}): "
            "install nabla_mlir from the repository or its wheel, as docs/learn/install.md says."
        )
        raise ModuleNotFoundError(message, name=error.name) from None
    if home is None:
        return module
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
