"""The faults of IREE in nabla_mlir/passes/iree/faults/table.py: each is still there, and what is written instead is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import iree.compiler.version
import numpy as np
import pytest
from legalize_support import legalized
from vulkan import need_vulkan

from nabla_mlir.base.errors import CompileError, DeployError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.compiling.internals import messages
from nabla_mlir.compiling.internals.block_arguments import OVERWRITTEN
from nabla_mlir.compiling.internals.references import LOST_BUFFER
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.dialects.types import shape_and_dtype
from nabla_mlir.passes.base import PASSES
from nabla_mlir.passes.iree.faults.table import FAULTS, WITH_REMEDIES, Fault, remedies_for
from nabla_mlir.runtime import Array, Executable
from nabla_mlir.targets import CPU, CUDA, Target, Vulkan

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "faults"
TARGETS: dict[str, Target] = {"cpu": CPU(), "vulkan": Vulkan("lavapipe"), "cuda": CUDA("sm_80")}
# Of a sum, IREE rounds every term where it may not reassociate; and flags of ours that are cures.
PLAIN = {"cpu": ["--iree-llvmcpu-reassociate-fp-reductions=false", "--iree-dispatch-creation-fuse-multi-use=true"]}
NAMES = {"np": np, "nan": np.nan, "inf": np.inf}  # in arguments and answers
CALLS = 3


class Reproducer:
    """A module of one function, `@f`, behind comments with its arguments and the answer for each of its results."""

    def __init__(self, fault: Fault):
        self.text = (FOLDER / f"{fault.name}.mlir").read_text()
        self._module = parse_module(self.text)
        inputs = self.function.attributes["function_type"].value.inputs
        given = self._values("argument")
        self.arguments = [np.asarray(x).astype(shape_and_dtype(type)[1]) for x, type in zip(given, inputs, strict=True)]
        self.answers = self._values("answer")

    def _values(self, what: str) -> list[Any]:
        return [eval(value, NAMES) for value in re.findall(f"^// {what}: (.*)$", self.text, re.M)]

    @property
    def function(self) -> Any:
        return functions_of(self._module.operation)["f"]

    def is_right(self, executable: Executable, name: str = "f") -> bool:
        """Whether a compiled function gives the answers and leaves its arguments alone, also when it is called again."""
        arguments = [Array.from_numpy(x, executable.device) for x in self.arguments]
        for _ in range(CALLS):
            try:
                results = executable.function(name)(arguments)
            except DeployError:
                return False
            pairs = [*zip(results, self.answers, strict=True), *zip(arguments, self.arguments, strict=True)]
            if not all(np.allclose(got, want, rtol=1e-5, atol=1e-5, equal_nan=True) for got, want in pairs):
                return False
        return True


def load(text: str, target: str, flags: list[str]) -> list[Executable]:
    """The module, compiled for the target, on each driver that runs its code here."""
    if target == "vulkan":
        need_vulkan()
        return [Executable.load(compile_module(text, Vulkan(), flags=flags, cache=False), "vulkan")]
    vmfb = compile_module(text, TARGETS[target], flags=flags, cache=False)
    return [Executable.load(vmfb, driver) for driver in TARGETS[target].drivers]


def on_its_target(fault: Fault) -> Any:
    return pytest.param(fault, id=fault.name, marks=[pytest.mark.vulkan] * (fault.targets[0] == "vulkan"))


@pytest.mark.parametrize("fault", [on_its_target(fault) for fault in FAULTS])
def test_a_fault_is_still_there(fault: Fault) -> None:
    reproducer, target = Reproducer(fault), fault.targets[0]
    try:
        executables = load(reproducer.text, target, PLAIN.get(target, []))
    except CompileError:
        return
    version = iree.compiler.version.VERSION
    is_right = all(reproducer.is_right(executable) for executable in executables)
    assert not is_right, f"fault {fault.name} is gone with IREE {version}: delete {fault.cure}"


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_the_cures_are_right(target: str) -> None:
    """All of them in one module."""
    reproducers = {fault.name: Reproducer(fault) for fault in FAULTS if fault.targets[0] == target}
    texts = [str(reproducer.function).replace("@f(", f"@{name}(") for name, reproducer in reproducers.items()]
    for executable in load(legalized("\n".join(texts), target), target, []):
        assert not [name for name, reproducer in reproducers.items() if not reproducer.is_right(executable, name)]


@pytest.mark.parametrize(("fault", "target"), [pytest.param(f, t, id=f"{f.name}-{t}") for f in FAULTS for t in f.targets[1:]])
def test_on_other_targets(fault: Fault, target: str) -> None:
    text = Reproducer(fault).text
    with pytest.raises(CompileError):
        compile_module(text, TARGETS[target], cache=False)
    compile_module(legalized(text, target), TARGETS[target], cache=False)


def test_the_table_is_whole() -> None:
    assert {path.stem for path in FOLDER.glob("*.mlir")} == {fault.name for fault in FAULTS}
    for fault in (*FAULTS, *WITH_REMEDIES):
        assert fault.what.endswith(".")
        assert fault.cure in (*PASSES, "targets/base.py") or fault in WITH_REMEDIES, f"{fault.cure} is no pass"
        assert fault.link == "" or fault.link.startswith("https://github.com/iree-org/iree/")
        assert iree.compiler.version.VERSION.startswith(fault.seen), f"{fault.name} was seen with IREE {fault.seen} last"
    assert len({fault.name for fault in (*FAULTS, *WITH_REMEDIES)}) == len(FAULTS) + len(WITH_REMEDIES)


def test_flags_are_found_by_the_name_of_the_fault() -> None:
    (fault,) = [f for f in WITH_REMEDIES if f.name == "lost_buffer"]
    assert remedies_for("lost_buffer") == fault.remedies
    assert not remedies_for("")


def test_messages_name_faults() -> None:
    for name, part in messages.FAULTS.items():
        assert messages.fault_of(f"module:1:2: error: IREE says: {part}: more") == name
    assert messages.fault_of("module:1:2: error: something else") == ""
    found_in_code = {LOST_BUFFER, OVERWRITTEN}
    with_remedies = {f.name for f in WITH_REMEDIES if f.remedies}
    assert messages.FAULTS.keys() - messages.OF_STRATEGIES == with_remedies - found_in_code
