"""An environment as on a machine to which an artifact is deployed: NumPy, IREE's runtime, the wheel, and nothing else."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import iree
import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.targets import CPU
from nabla_mlir.tools import wheels


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A new environment; what is installed here stands in for what pip would download."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    here = Path(np.__file__).parent.parent
    for pattern in ("numpy*", "ml_dtypes*", "iree_base_runtime*"):  # IREE's runtime requires the others
        for package in here.glob(pattern):
            (site / package.name).symlink_to(package)
    (site / "iree").mkdir()
    for name in ("runtime", "_runtime", "_runtime_libs"):
        home = next(Path(p, name) for p in iree.__path__ if Path(p, name).exists())
        (site / "iree" / name).symlink_to(home)
    wheel, _ = wheels.build(folder / "dist")
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-compile", wheel]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return python


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    lowered = nm.trace(nm.value_and_grad(lambda x: (x**3).sum()), nm.spec(3, "f64"), name="cube").lower()
    return lowered.compile([nm.CUDA("sm_80"), CPU("generic")]).save(tmp_path_factory.mktemp("artifact") / "cube.zip")


def run(python, *arguments):
    done = subprocess.run([python, "-I", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


PROGRAM = """
import sys, numpy as np, nabla_mlir as nm
module = nm.load(sys.argv[1])
value, gradient = module.cube(np.array([1.0, 2.0, 3.0]))
assert (gradient.sum(), (2.0 * gradient - gradient)[1], gradient.T[0]) == (42.0, 12.0, 3.0)
print(float(value), gradient.tolist(), module.code.label, *sorted(m for m in ("optree", "iree.compiler", "jax") if m in sys.modules))
try:
    module.lower()
except nm.errors.DeployError as error:
    print(error.message)
try:
    nm.grad
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_an_artifact_runs(python, artifact):
    code, out, error = run(python, "-c", PROGRAM, artifact)
    assert code == 0, error
    assert out.splitlines()[0].startswith("36.0 [3.0, 12.0, 27.0] cpu-generic-")
    assert out.splitlines()[1].startswith("lower requires the compiler, got an installation of the runtime alone")
    assert "nm.grad requires the compiler, got an installation of the runtime alone" in out.splitlines()[2]


def test_the_command_works_too(python, artifact, tmp_path):
    command = (python, "-m", "nabla_mlir.tools.main")
    assert "cuda-sm_80" in run(*command, "info", artifact)[1]
    code, out, _ = run(*command, "run", artifact, "--input=[1, 2, 3]")
    assert code == 0
    assert "[ 3. 12. 27.]" in out
    code, out, _ = run(*command, "verify", artifact)
    assert code == 0
    assert "agrees with the interpreter" in out
    code, out, _ = run(*command, "doctor")
    assert code == 0
    assert "iree-base-compiler  not installed" in out
    assert "skipped (runtime alone)" in out
    assert "not possible" not in out
    code, _, error = run(*command, "compile", "model.py:f")
    assert code == 1
    assert "Traceback" not in error
