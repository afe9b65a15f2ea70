"""The faults of IREE in nabla_mlir/passes/iree/faults/table.py: each is still there, and what is written instead is right."""

from __future__ import annotations

import re
from pathlib import Path

import iree.compiler.version
import numpy as np
import pytest
from legalize_support import legalized

from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.errors import CompileError
from nabla_mlir.passes.base import PASSES
from nabla_mlir.passes.iree.faults.table import FAULTS, WITH_REMEDIES, Fault, remedies_for
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import CPU, CUDA, Vulkan

FOLDER = Path(__file__).parent / "faults"
OTHERS = {"vulkan": Vulkan("lavapipe"), "cuda": CUDA("sm_80")}
# Of a sum, IREE rounds every term where it may not reassociate.
PLAIN = ["--iree-llvmcpu-reassociate-fp-reductions=false"]


class Reproducer:
    """A module of one function, `@f`, behind comments with its arguments and the answer."""

    def __init__(self, fault: Fault):
        self.text = (FOLDER / f"{fault.name}.mlir").read_text()
        inputs = parse_module(self.text).body.operations[0].type.inputs
        given = re.findall(r"^// argument: (.*)$", self.text, re.M)
        self.arguments = [
            np.array(eval(g, {"nan": np.nan, "inf": np.inf})).astype(shape_and_dtype(t)[1])
            for g, t in zip(given, inputs, strict=True)
        ]
        (answer,) = re.findall(r"^// answer: (.*)$", self.text, re.M)
        self.answer = np.array(eval(answer, {"nan": np.nan, "inf": np.inf}))

    def is_right(self, executable: Executable, name: str = "f") -> bool:
        """Whether a compiled function gives the answer."""
        got = np.asarray(executable.function(name)(self.arguments)[0])
        return np.allclose(got, self.answer, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_still_there(fault: Fault) -> None:
    reproducer = Reproducer(fault)
    try:
        executable = Executable.load(compile_module(reproducer.text, CPU(), flags=PLAIN, cache=False))
    except CompileError:
        return
    version = iree.compiler.version.VERSION
    assert not reproducer.is_right(executable), f"fault {fault.name} is gone with IREE {version}: delete {fault.cure}"


def test_the_cures_are_right() -> None:
    """All of them in one module."""
    reproducers = {fault.name: Reproducer(fault) for fault in FAULTS}
    texts = [reproducer.text.replace("@f(", f"@{name}(") for name, reproducer in reproducers.items()]
    executable = Executable.load(compile_module(legalized("".join(texts)), CPU(), cache=False))
    assert not [name for name, reproducer in reproducers.items() if not reproducer.is_right(executable, name)]


@pytest.mark.parametrize(
    ("fault", "target"), [pytest.param(f, t, id=f"{f.name}-{t}") for f in FAULTS for t in f.targets[1:]]
)
def test_on_other_targets(fault: Fault, target: str) -> None:
    text = Reproducer(fault).text
    with pytest.raises(CompileError):
        compile_module(text, OTHERS[target], cache=False)
    compile_module(legalized(text, target), OTHERS[target], cache=False)


def test_the_table_is_whole() -> None:
    assert {path.stem for path in FOLDER.glob("*.mlir")} == {fault.name for fault in FAULTS}
    for fault in (*FAULTS, *WITH_REMEDIES):
        assert fault.what.endswith(".")
        assert fault.cure in PASSES or fault in WITH_REMEDIES, f"{fault.cure} is no pass"
        assert fault.link == "" or fault.link.startswith("https://github.com/iree-org/iree/issues/")
        assert iree.compiler.version.VERSION.startswith(fault.seen), f"{fault.name} was seen with IREE {fault.seen} last"
    assert len({fault.name for fault in (*FAULTS, *WITH_REMEDIES)}) == len(FAULTS) + len(WITH_REMEDIES)


def test_flags_are_found_by_what_iree_says() -> None:
    (fault,) = [f for f in WITH_REMEDIES if f.name == "lost_buffer"]
    assert tuple(remedies_for(f"error: IREE uses {fault.message}.")) == fault.remedies
    assert not list(remedies_for("error: something else"))
