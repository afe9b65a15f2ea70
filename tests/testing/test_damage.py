"""Damaged files are read as before or refused by name; some of each kind, others every day, and what was found and mended."""

from __future__ import annotations

import collections
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support import seed_of_the_day

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, ImportIRError, NablaError, RuleMissingError, VerifyError
from nabla_mlir.interop.portable import parse
from nabla_mlir.interpreter import interpreted
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.runtime.manifest import Leaf
from nabla_mlir.runtime.storage import Artifact
from nabla_mlir.testing import damage
from nabla_mlir.tools import opt
from nabla_mlir.tools.inputs import InputError, bind


@pytest.mark.parametrize(
    ("kind", "count"), [("text", 150), ("import", 60), ("zip", 150), ("npy", 150), ("vmfb", 20), ("manifest", 150)]
)
def test_damaged_files(kind: str, count: int) -> None:
    """Others every day; the seed is in what a failure says."""
    seed = seed_of_the_day()
    fates = [(number, damage.read(kind, number)) for number in range(seed, seed + count)]
    assert [fate for fate in fates if "FAULT" in fate[1]] == []


def test_damaged_bytecode() -> None:
    """In a process of its own, since the reader of MLIR trusts lengths."""
    counts = damage.survey("bytecode", int(np.random.default_rng().integers(2**30)), 0.05)
    assert [fate for fate in counts if fate.startswith("FAULT")] == []


def test_a_crash_and_an_error_of_others_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setitem(damage.KINDS, "zip", fails)
    assert damage.read("zip", 0).startswith("FAULT KeyError damage.py")
    monkeypatch.setattr(damage.sys, "executable", "false")  # a process that ends at once
    counts = damage.survey("zip", 0, 0.0005)
    assert isinstance(counts, collections.Counter)
    assert set(counts) <= {"FAULT"}


def test_a_seed_is_a_damage() -> None:
    content = bytes(range(200))
    first, second = (damage.damaged(content, np.random.default_rng(3)) for _ in range(2))
    assert first == second != content
    assert damage.altered("a = b\nc = 4\n", np.random.default_rng(1)) == damage.altered("a = b\nc = 4\n", np.random.default_rng(1))


DERIVATIVE = """func.func @f(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {{
  %y, %dy = "ad.jvp"(%x, %t) ({{
  ^bb0(%a: tensor<f32>):
    {body}
  }}) {{wrt = array<i64: 0>, of = array<i64: 0>}} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}}"""


def test_a_value_that_is_read_before_it_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MLIR takes it in a region of an operation that it does not know."""
    body = "%c = stablehlo.add %a, %b : tensor<f32> %b = stablehlo.sine %a : tensor<f32> stablehlo.return %c : tensor<f32>"
    text = DERIVATIVE.format(body=body)
    message = r"stablehlo.add requires operands that are made before it, got a tensor<f32> of stablehlo.sine below it"
    with pytest.raises(VerifyError, match=message):
        nm.from_stablehlo(text)
    (tmp_path / "f.mlir").write_text(text)
    assert opt.main([str(tmp_path / "f.mlir")]) == 1
    assert "requires operands that are made before it" in capsys.readouterr().err


def test_an_attribute_that_the_bindings_cannot_hand_over() -> None:
    text = DERIVATIVE.format(body="stablehlo.return %a : tensor<f32>").replace("wrt = array<i64: 0>", "wrt = array<i0: 0>")
    with pytest.raises(VerifyError, match=r"ad.jvp requires 'wrt' as array<i64: ...>, got one where "):
        nm.grad(nm.from_stablehlo(text))
    text = str(nm.trace(nm.vmap(lambda x: nm.psum(x, "i"), axis_name="i"), nm.spec(3), name="f").module)
    for known, other in (("array<i64: 3>", "%s"), ('["i"]', "[%s]"), ("[array<i64: 0>]", "[%s]"), ('axis = "i"', "axis = %s")):
        other = other.replace("%s", "array<i0: 0>")
        assert known in text
        with pytest.raises(VerifyError, match=r"batch\.\w+ requires .*, got one where Can't cast"):
            nm.from_stablehlo(text.replace(known, other, 1))
    text = str(nm.trace(nm.checkpoint(nnp.sin, policy=nm.checkpoint_policies.dots_saveable), nm.spec(3), name="f").module)
    for known, other in (("= [[", "= [%s, ["), ('= [["', '= [[%s, "'), ("recompute = false", "recompute = %s")):
        other = other.replace("%s", "array<i0: 0>")
        assert known in text
        with pytest.raises(VerifyError, match=r"ad\.checkpoint requires '\w+' as .*, got "):
            nm.from_stablehlo(text.replace(known, other, 1))


def test_formulas_that_stand_for_functions_have_no_derivatives() -> None:
    """They take numbers apart into bits: their derivative would be another number."""
    module = parse(DERIVATIVE.format(body="%b = stablehlo.tanh %a : tensor<f32> stablehlo.return %b : tensor<f32>"))
    with pytest.raises(VerifyError, match=r"nabla-legalize-math requires that no derivative is left, got ad.jvp"):
        Pipeline.parse("nabla-legalize-math").run(module)


def test_bytecode_whose_names_are_no_text() -> None:
    """Python's bindings would end the process."""
    compiled = nm.trace(lambda x: nnp.sin(x), nm.spec(3), name="f").lower()
    stablehlo = Artifact(compiled.compile().to_bytes()).stablehlo()
    assert nm.from_stablehlo(stablehlo)(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    with pytest.raises(ImportIRError, match=r"importing requires bytecode that MLIR reads, got "):
        nm.from_stablehlo(stablehlo.replace(b"stablehlo\0", b"\xff\xff\xffblehlo\0"))
    with pytest.raises(ImportIRError, match=r"importing requires bytecode that MLIR reads, got "):
        nm.from_stablehlo(stablehlo[:-9])


def test_a_constant_of_the_state_that_is_no_integer() -> None:
    module = parse("func.func @f() -> f64 { %c = arith.constant 0.0 : f64 return %c : f64 }")
    with pytest.raises(RuleMissingError, match=r"arith\.constant"):
        interpreted(module.operation, "f")([])


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f4', 'shape': (", b"{'descr': '<f4', 'shape': (9999999999999,), 'fortran_order': False}", b"]"]
)
def test_a_damaged_array(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header + b"\n").to_bytes(2, "little") + header + b"\n")
    with pytest.raises(InputError, match=r"--input requires a NumPy file for x, got .*x.npy"):
        bind([str(path)], [Leaf("x", (3,), "float32")], "main")


def test_an_archive_that_is_encrypted_or_packed_in_another_way(tmp_path: Path) -> None:
    content = bytearray(damage._artifact()[0])
    at = content.index(b"PK\x01\x02")  # of the first entry in the directory at the end
    for place, value in ((8, 1), (10, 99), (42, 255)):
        other = bytearray(content)
        for start in [i for i in range(len(other)) if other[i : i + 4] == b"PK\x01\x02" and i >= at]:
            other[start + place] = value
        with pytest.raises(DeployError, match=r"requires (a whole|an) archive"):
            nm.load(bytes(other))
    end = content.index(b"PK\x05\x06")
    with pytest.raises(DeployError, match=r"requires (a whole|an) archive"):
        nm.load(bytes(content[:8] + content[end:]))


@pytest.mark.parametrize(
    "change",
    [
        ('"iree_range": ["3.13"', '"iree_range": ["s"'),
        ('"schema": 1', '"schema": "1"'),
        ('"file": "artifact.vmfb"', '"file": 3'),
        ('"file": "artifact.vmfb"', '"file": ""'),
        ('"leaves": [', '"leaves": [{"name": "w", "shape": [], "dtype": "float32"}, '),
    ],
)
def test_a_manifest_of_other_types(tmp_path: Path, change: tuple[str, str]) -> None:
    content, x = damage._artifact()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    manifest = tmp_path / "artifact.json"
    text = manifest.read_text()
    assert change[0] in text
    manifest.write_text(change[1].join(text.rsplit(change[0], 1)))
    with pytest.raises(NablaError):
        nm.load(manifest).main(x)
