"""One module with many functions, compiled once per target; its artifact; the disk cache under build/test-cache."""

import os
from pathlib import Path

import pytest
from deploy_support import manifest, source
from vulkan import need_vulkan

from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.runtime.storage import save_artifact
from nabla_mlir.targets import CPU, Vulkan

ROOT = Path(__file__).resolve().parents[2]
os.environ["NABLA_MLIR_CACHE_DIR"] = str(ROOT / "build" / "test-cache")
os.environ["NABLA_MLIR_CACHE_SIZE"] = "200M"


@pytest.fixture(scope="session")
def mlir():
    return source()


@pytest.fixture(scope="session")
def vmfb(mlir):
    return compile_module(mlir, CPU())


@pytest.fixture(scope="session")
def asynchronous_vmfb(mlir):
    return compile_module(mlir, CPU(asynchronous=True))


@pytest.fixture(scope="session")
def vulkan_vmfb(mlir):
    need_vulkan()
    return compile_module(mlir, Vulkan())


@pytest.fixture
def artifact(tmp_path, vmfb):
    return save_artifact(tmp_path / "deploy.vmfb", [vmfb], manifest(CPU()))
