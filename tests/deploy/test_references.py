"""Reference values in artifacts: where code runs, without the compiler, wrong numbers are found and right ones are not refused."""

import json
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base.errors import DeployError, WrongNumbersError
from nabla_mlir.compiling.reference_values import references_of
from nabla_mlir.dialects.context import bytecode_of
from nabla_mlir.runtime.drawn import DRAWS, FORM, drawn
from nabla_mlir.runtime.reference import Reference, ResultReference, arguments_of, check_numbers, compare, text_of, weighted_sum
from nabla_mlir.runtime.storage import artifact_bytes

MEBIBYTE = 1 << 20


def lowered(f, *specs):
    return nm.trace(f, *specs, name="f").lower()


def with_code(compiled, vmfb):
    """The artifact with other code, of which it names the checksum."""
    return artifact_bytes([vmfb], compiled._checkable, bytecode_of(compiled.module))


@pytest.fixture(scope="module")
def polynomial():
    return lowered(lambda x: (3.2500011 * x + x * x * x, x - 1.0), nm.spec(64, "f64")).compile(nm.CPU("host"))


def test_right_numbers_are_not_refused(polynomial, tmp_path):
    module = nm.load(polynomial.save(tmp_path / "polynomial"), check=True)
    assert check_numbers(module)["f"] <= 1
    assert polynomial.to_bytes() == polynomial.to_bytes()
    text = polynomial._checkable.to_json()
    assert len(text) - len(polynomial.manifest.to_json()) < 4000
    assert type(polynomial._checkable).from_json(text).to_json() == text


def test_a_wrong_constant_is_caught(polynomial):
    """Its seventh digit: the file is whole, by a checksum of its own."""
    for dtype in (np.float64,):
        right, wrong = dtype(3.2500011).tobytes(), dtype(3.2500012).tobytes()
        assert right in polynomial.vmfb
    content = with_code(polynomial, polynomial.vmfb.replace(right, wrong))
    nm.load(content)  # whole
    with pytest.raises(
        WrongNumbersError, match=r"f requires \S+ as result 0 at \(0,\), to within .* on drawn arguments, got"
    ) as caught:
        nm.load(content, check=True)
    assert isinstance(caught.value, DeployError)
    assert "compile it for this machine" in caught.value.help


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the bit is one of an x86 instruction")
def test_a_bit_that_flipped_in_a_kernel_is_caught(polynomial, tmp_path):
    """A bit of an opcode: of additions 58 and products 59. It is tried in processes of their own, since one may end in a crash."""
    code = polynomial.vmfb
    start = code.index(b"\x7fELF")
    found = [
        i
        for i in range(start, len(code) - 1)
        if code[i] in (0x58, 0x59) and code[i + 1] >= 0xC0 and code[i - 3] in (0xC4, 0x62, 0xF1)
    ]
    found += [i for i in range(start, len(code) - 1) if code[i] in (0x58, 0x59) and code[i - 2] == 0xC5]
    caught = 0
    for i in found[:12]:
        flipped = code[:i] + bytes([code[i] ^ 1]) + code[i + 1 :]
        path = tmp_path / f"{i}.zip"
        path.write_bytes(with_code(polynomial, flipped))
        program = f"import nabla_mlir.runtime as r; r.load({str(path)!r}, check=True)"
        process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
        caught += "WrongNumbersError" in process.stderr
    assert caught, f"none of {len(found)}"


def test_a_state_is_called_in_order():
    module = nm.hvp_module(lambda x: nnp.sum(nnp.sin(x) * x**2), nm.spec(5, "f64"), entry_points="all")
    compiled = module.compile()
    loaded = nm.load(compiled.to_bytes(), check=True)
    assert check_numbers(loaded).keys() == {e.name for e in compiled.entries}
    with pytest.raises(DeployError):
        loaded.apply(np.ones(5))  # the check left the state as it was: nothing has been set
    apply = compiled._checkable.entry_points[[e.name for e in compiled.entries].index("apply")]
    assert apply.reference.order > 0


def test_bundles_and_sparse_derivatives_carry_them():
    stage = lowered(lambda x: nnp.sin(x) * 2.5, nm.spec(4, "f64"))
    both = stage.compile([nm.CPU("host"), nm.CPU("generic")])
    assert check_numbers(nm.load(both.to_bytes()))["f"] <= 1
    assert check_numbers(nm.load(both.to_bytes(), target=both.parts[1].code.label))["f"] <= 1
    sparse = nm.sparse_hessian_module(lambda x: nnp.sum(x[1:] ** 3 * x[:-1]), nm.spec(6, "f64")).compile()
    assert check_numbers(nm.load(sparse.to_bytes(), check=True))


def test_complex_numbers_integers_and_nan():
    def f(x, i):
        return x * nnp.conj(x), nnp.exp(1j * x), i * 7 + 3, nnp.log(nnp.real(x) - 0.5), i > 0, nnp.zeros((0, 2)), nnp.sum(x)

    compiled = lowered(f, nm.spec((3, 5), "complex64"), nm.spec(40, "int32")).compile()
    nm.load(compiled.to_bytes(), check=True)
    (entry,) = compiled._checkable.entry_points
    assert [text_of(complex(x)) for x in (0.5, 1 + 2j, "nan")] == ["0.5", "1+2j", "nan"]
    results = [np.asarray(y) for y in compiled.loaded["f"].run(arguments_of(entry, entry.reference))]
    assert np.isnan(results[3]).any()
    for k, broken in (
        (2, results[2] + (np.arange(40) == 17)),
        (3, np.nan_to_num(results[3])),
        (4, ~results[4]),
        (6, results[6] * 1.001),
    ):
        with pytest.raises(WrongNumbersError, match=f"as result {k}"):
            compare(entry, entry.reference, [*results[:k], broken.astype(results[k].dtype), *results[k + 1 :]])
    with pytest.raises(WrongNumbersError, match="as result 0"):
        compare(entry, entry.reference, [results[0][:, ::-1], *results[1:]])


def test_exchanged_elements_change_the_sum():
    x = np.arange(1000.0)
    y = x.copy()
    y[[413, 414]] = x[[414, 413]]
    assert abs(weighted_sum(x) - weighted_sum(y)) > 0.1


def test_what_takes_too_long_carries_none():
    stage = lowered(lambda x: nm.fori_loop(0, 100_000, lambda i, c: nnp.sin(c) + 0.1 * i, x), nm.spec(3))
    compiled = stage.compile()
    assert compiled._checkable.entry_points[0].reference.absence == "the interpreter would take too long"
    with pytest.raises(
        DeployError, match=r"check requires reference values .* got none \(f: the interpreter would take too long\)"
    ):
        nm.load(compiled.to_bytes(), check=True)
    both = (
        nm.module(
            slow=nm.trace(lambda x: nm.fori_loop(0, 100_000, lambda i, c: nnp.sin(c), x), nm.spec(3)),
            quick=nm.trace(lambda x: x + 1, nm.spec(3)),
        )
        .lower()
        .compile()
    )
    with pytest.warns(RuntimeWarning, match="entry points are not checked: slow: the interpreter would take too long"):
        nm.load(both.to_bytes(), check=True)
    before = nm.set_checking("off")
    try:
        off = lowered(lambda x: x * 1.5, nm.spec(3)).compile()
        assert off._checkable.entry_points[0].reference.absence == "checking was off"
    finally:
        nm.set_checking(before)


def test_artifacts_of_older_releases_load(polynomial):
    manifest = polynomial.manifest  # without references
    assert all(e.reference is None for e in manifest.entry_points)
    assert "reference" not in json.loads(manifest.to_json())["entry_points"][0]
    content = artifact_bytes([polynomial.vmfb], manifest, bytecode_of(polynomial.module))
    nm.load(content)
    with pytest.raises(DeployError, match="it was saved by an older release"):
        nm.load(content, check=True)


def test_references_are_those_of_the_interpreter():
    stage = lowered(lambda x: x + 0.25, nm.spec(2, "f64"))
    (entry,) = stage.compile()._checkable.entry_points
    (result,) = entry.reference.results
    x = arguments_of(entry, entry.reference)[0]
    assert [float(v) for v in result.values] == (x + 0.25).tolist()
    assert references_of(stage.module)["f"] == entry.reference
    assert isinstance(result, ResultReference)
    assert Reference.from_json(json.loads(json.dumps(entry.reference.to_json()))) == entry.reference
    with pytest.raises(WrongNumbersError, match=r"got float64\[3\]"):
        compare(entry, entry.reference, [np.zeros(3)])
    assert replace(entry, reference=None).reference is None


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0), (0, 0), (3, 3)])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32", "bool"])
def test_arguments_of_any_shape_are_drawn(draw, shape, dtype):
    (x,) = drawn([(shape, np.dtype(dtype))], "f", draw, is_definite=True)
    assert (x.shape, x.dtype) == (shape, np.dtype(dtype))


def test_references_of_older_artifacts_are_drawn_as_they_were():
    """They have no form; the newest form draws other numbers."""
    stage = lowered(lambda x: nnp.sum(x * x), nm.spec((200, 300)))
    (entry,) = stage.compile()._checkable.entry_points
    assert entry.reference.form == FORM
    data = entry.reference.to_json()
    del data["form"]
    old = arguments_of(entry, Reference.from_json(data | {"draw": DRAWS[2], "others": []}))[0]
    whole = np.random.RandomState([*b"f"]).uniform(-2.5, 2.5, (200, 300))
    assert np.array_equal(old, whole.astype(np.float32))
    assert not np.array_equal(old, drawn([((200, 300), np.dtype("f4"))], "f", DRAWS[2], form=FORM)[0])


def test_large_arrays_repeat_a_block_without_equal_rows():
    (x,) = drawn([((300, 300), np.dtype("f4"))], "f", DRAWS[3], form=FORM)
    assert len(np.unique(x, axis=0)) == len(np.unique(np.abs(x[:, 0]))) == 300
    assert (np.sign(x) == np.sign(x[:, :1])).all()
    assert (x < 0).any()
    assert (x > 0).any()
