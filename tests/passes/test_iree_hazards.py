"""The hazards of IREE 3.13 that other tests of legalisation do not hold: what it refuses, crashes on or computes wrongly.

For each the answer after legalisation, and that IREE still needs it: when a newer one does not, a pattern can go.
"""

from __future__ import annotations

import numpy as np
import pytest
from legalize_support import legalized
from vulkan import need_vulkan

from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.errors import CompileError, DeployError, ImportIRError, RuleMissingError
from nabla_mlir.interop.stablehlo import from_stablehlo
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import CPU, CUDA, Target, Vulkan

rng = np.random.default_rng(0)
CPU_ONLY, ALL = (CPU(),), (CPU(), Vulkan("lavapipe"), CUDA("sm_80"))


def function(name: str, arguments: str, result: str, body: str) -> str:
    return f"func.func @{name}({arguments}) -> {result} {{\n{body}\n}}\n"


def windows(image: str, result: str, size: int, stride: int) -> str:
    return f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.select_and_scatter"(%x, %y, %z) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }}) {{window_dimensions = array<i64: {size}>, window_strides = array<i64: {stride}>}}
        : (tensor<{image}xf32>, tensor<{result}xf32>, tensor<f32>) -> tensor<{image}xf32>
      return %0 : tensor<{image}xf32>"""


def fft(kind: str, shape: str, length: str, element: str) -> str:
    t = f"tensor<{shape}xcomplex<{element}>>"
    body = f"%0 = stablehlo.fft %x, type = {kind}, length = [{length}] : ({t}) -> {t}\nreturn %0 : {t}"
    return function("f", f"%x: {t}", t, body)


def overlapping(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for i, value in enumerate(y):
        out[i + np.argmax(x[i : i + 2])] += value
    return out


def partial(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[1:3, 2] += y
    return out


C8 = "tensor<8xcomplex<f32>>"
# What IREE refuses or crashes on: the module, the targets, arguments and the answer.
REFUSED: dict[str, tuple[str, tuple[Target, ...], tuple[np.ndarray, ...], np.ndarray]] = {}


def refused(name: str, text: str, targets: tuple[Target, ...], arguments: tuple[np.ndarray, ...], want: np.ndarray) -> None:
    REFUSED[name] = (text, targets, arguments, want)


z7 = (rng.normal(size=7) + 1j * rng.normal(size=7)).astype(np.complex64)
z23 = (rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))).astype(np.complex64)
z8 = (rng.normal(size=8) + 1j * rng.normal(size=8)).astype(np.complex128)
refused("fft of 7", fft("FFT", "7", "7", "f32"), CPU_ONLY, (z7,), np.fft.fft(z7))
refused("fft of rank 2", fft("FFT", "4x4", "4, 4", "f32"), CPU_ONLY, (z23,), np.fft.fft2(z23))
refused("fft in c128", fft("IFFT", "8", "8", "f64"), CPU_ONLY, (z8,), np.fft.ifft(z8))
x5, y4 = rng.normal(size=5).astype(np.float32), rng.normal(size=4).astype(np.float32)
refused(
    "overlapping windows", function("f", "%x: tensor<5xf32>, %y: tensor<4xf32>", "tensor<5xf32>", windows("5", "4", 2, 1)),
    CPU_ONLY, (x5, y4), overlapping(x5, y4),
)  # fmt: skip
x34, y2 = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=2).astype(np.float32)
refused(
    "partial window of a scatter",
    function("f", "%x: tensor<3x4xf32>, %y: tensor<2xf32>", "tensor<3x4xf32>", """%i = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
      %0 = "stablehlo.scatter"(%x, %i, %y) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1],
          scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>, indices_are_sorted = false, unique_indices = false}
        : (tensor<3x4xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>"""),
    CPU_ONLY, (x34, y2), partial(x34, y2),
)  # fmt: skip
c3 = np.array([1j, 2, -1], np.complex64)
refused(
    "pad of complex numbers",
    function("f", "%x: tensor<3xcomplex<f32>>", C8, f"""%z = stablehlo.constant dense<(2.0, 1.0)> : tensor<complex<f32>>
      %0 = stablehlo.pad %x, %z, low = [2], high = [3], interior = [0] : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> {C8}
      return %0 : {C8}"""),
    ALL, (c3,), np.concatenate([[2 + 1j] * 2, c3, [2 + 1j] * 3]),
)  # fmt: skip
x6 = (rng.normal(size=6) + 1j * rng.normal(size=6)).astype(np.complex64)
refused(
    "padding of a complex convolution",
    function("f", "%x: tensor<1x6x1xcomplex<f32>>", "tensor<1x6x1xcomplex<f32>>", """%k = stablehlo.constant dense<[[[(1.0, 0.0)]], [[(0.0, 2.0)]], [[(1.0, -1.0)]]]>
          : tensor<3x1x1xcomplex<f32>>
      %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x6x1xcomplex<f32>>, tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>>
      return %0 : tensor<1x6x1xcomplex<f32>>"""),
    CPU_ONLY, (x6[None, :, None],), np.convolve(x6, [1 - 1j, 2j, 1], "same")[None, :, None],
)  # fmt: skip
h3 = np.array([0.5, -1.0, 448.0], np.float16)
refused(
    "float8 from f16",
    function("f", "%x: tensor<3xf16>", "tensor<3xf16>", """%0 = stablehlo.convert %x : (tensor<3xf16>) -> tensor<3xf8E4M3FN>
      %1 = stablehlo.convert %0 : (tensor<3xf8E4M3FN>) -> tensor<3xf16>
      return %1 : tensor<3xf16>"""),
    CPU_ONLY, (h3,), h3,
)  # fmt: skip


n6 = np.arange(6, dtype=np.uint32)
refused(
    "reversed unsigned numbers",
    function("f", "%x: tensor<6xui32>", "tensor<6xui32>",
             "%0 = stablehlo.reverse %x, dims = [0] : tensor<6xui32>\nreturn %0 : tensor<6xui32>"),
    CPU_ONLY, (n6,), n6[::-1],
)  # fmt: skip
refused(
    "running or",
    function("f", "%x: tensor<6xi1>", "tensor<6xi1>", """%z = stablehlo.constant dense<false> : tensor<i1>
      %0 = "stablehlo.reduce_window"(%x, %z) ({
      ^bb0(%a: tensor<i1>, %b: tensor<i1>):
        %c = stablehlo.or %a, %b : tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) {window_dimensions = array<i64: 6>, padding = dense<[[5, 0]]> : tensor<1x2xi64>}
        : (tensor<6xi1>, tensor<i1>) -> tensor<6xi1>
      return %0 : tensor<6xi1>"""),
    CPU_ONLY, (n6 == 2,), n6 >= 2,
)  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_iree_still_refuses(name: str) -> None:
    text, targets, _, _ = REFUSED[name]
    for target in targets:
        with pytest.raises(CompileError):
            compile_module(text, target, cache=False)


def test_what_iree_refuses_is_right() -> None:
    """All of them as one module, and for the targets where IREE crashed."""
    texts = [text.replace("@f(", f"@f{i}(") for i, (text, *_) in enumerate(REFUSED.values())]
    executable = Executable.load(compile_module(legalized("".join(texts)), CPU(), cache=False))
    for i, (name, (_, _, arguments, want)) in enumerate(REFUSED.items()):
        got = np.asarray(executable.function(f"f{i}")(arguments)[0])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)
    for text, targets, _, _ in REFUSED.values():
        for target in targets[1:]:
            compile_module(legalized(text, target.name), target, cache=False)


WRONG = {
    # Sorted dimensions after a transpose.
    "broadcast of a cycle": function(
        "f", "%x: tensor<2x2x2xf32>", "tensor<2x2x2xf32>",
        "%0 = stablehlo.broadcast_in_dim %x, dims = [1, 2, 0] : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>\n"
        "return %0 : tensor<2x2x2xf32>"),
    # Accumulated in f32.
    "sum of f16": function(
        "f", "%x: tensor<2100xf16>", "tensor<f16>",
        "%z = stablehlo.constant dense<0.0> : tensor<f16>\n"
        "%0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]"
        " : (tensor<2100xf16>, tensor<f16>) -> tensor<f16>\nreturn %0 : tensor<f16>"),
    # In i32: a sum of truth values is an or.
    "product of truth values": function(
        "f", "%x: tensor<3x3xi1>", "tensor<3x3xi1>",
        '%0 = stablehlo.einsum %x, %x, config = "ij,jk->ki" : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>\n'
        "return %0 : tensor<3x3xi1>"),
    # The last of equal elements is selected, not the first.
    "windows with equal elements": function(
        "f", "%x: tensor<4xf32>", "tensor<4xf32>",
        "%y = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n" + windows("4", "2", 2, 2)),
    # What lies behind the rows, here more of the argument, and elsewhere anything.
    "gather out of range": function(
        "f", "%x: tensor<8x2xf32>", "tensor<2x2xf32>",
        "%y = stablehlo.slice %x [0:4, 0:2] : (tensor<8x2xf32>) -> tensor<4x2xf32>\n"
        "%c = stablehlo.constant dense<[[5], [2]]> : tensor<2x1xi32>\n"
        "%i = stablehlo.optimization_barrier %c : tensor<2x1xi32>\n"
        '%0 = "stablehlo.gather"(%y, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}"
        " : (tensor<4x2xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>\nreturn %0 : tensor<2x2xf32>"),
    "scatter out of range": function(
        "f", "%x: tensor<4x4xf32>", "tensor<4x4xf32>",
        "%c = stablehlo.constant dense<[0, 5]> : tensor<2xi32>\n"
        "%i = stablehlo.optimization_barrier %c : tensor<2xi32>\n"
        "%u = stablehlo.constant dense<9.0> : tensor<f32>\n"
        '%0 = "stablehlo.scatter"(%x, %i, %u) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
        "stablehlo.return %b : tensor<f32>}) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = "
        "[0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>}"
        " : (tensor<4x4xf32>, tensor<2xi32>, tensor<f32>) -> tensor<4x4xf32>\nreturn %0 : tensor<4x4xf32>"),
    # NaN is passed over.
    "the largest with NaN": function(
        "f", "%x: tensor<2x8xf32>", "(tensor<2x3xi32>, tensor<2x3xf32>)",
        "%v, %i = chlo.top_k(%x, k = 3) : tensor<2x8xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)\n"
        "return %i, %v : tensor<2x3xi32>, tensor<2x3xf32>"),
}  # fmt: skip
cube, ones = np.arange(8, dtype=np.float32).reshape(2, 2, 2), np.full(2100, 1.001, np.float16)
pairs = np.eye(3, dtype=bool)[::-1] | np.eye(3, dtype=bool)
ANSWERS = {
    "broadcast of a cycle": (cube, cube.transpose(2, 0, 1)),
    "product of truth values": (pairs, (pairs @ pairs).T),
    "windows with equal elements": (np.float32([5, 5, 3, 2]), np.float32([1, 0, 2, 0])),
    "gather out of range": (np.arange(16, dtype=np.float32).reshape(8, 2), np.float32([[6, 7], [4, 5]])),
    "scatter out of range": (np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)),
    "the largest with NaN": (np.float32([[1, np.nan, 2, 5, np.inf, 3, 4, 1]] * 2), np.int32([[1, 4, 3]] * 2)),
    "sum of f16": (ones, np.float16(ones.astype(np.float64).sum())),
}


@pytest.mark.parametrize("name", WRONG)
def test_iree_is_still_wrong(name: str) -> None:
    argument, want = ANSWERS[name]
    for text, right in ((WRONG[name], False), (legalized(WRONG[name]), True)):
        flags = [] if right else ["--iree-llvmcpu-reassociate-fp-reductions=false"]
        executable = Executable.load(compile_module(text, CPU(), flags=flags, cache=False))
        assert np.array_equal(np.asarray(executable.function("f")([argument])[0]), want) == right


def test_iree_still_never_ends_with_recursion() -> None:
    text = """func.func @f(%x: tensor<f32>) -> tensor<f32> {
      %0 = func.call @g(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @g(%x: tensor<f32>) -> tensor<f32> {
      %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    with pytest.raises(CompileError, match="requires that the compiler ends within 3 s"):
        compile_module(text, CPU(), cache=False, timeout=3)
    with pytest.raises(RuleMissingError, match="without recursion"):
        legalized(text)


def test_iree_still_has_no_collectives() -> None:
    """They compile, and fail where they run; the answer on one device is in test_legalize_structured."""
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    function = Executable.load(compile_module(text, CPU(), cache=False)).function("f")
    with pytest.raises(DeployError):
        function([np.ones(4, np.float32)])


def test_iree_still_crashes_without_optimisation() -> None:
    """A product over nothing, at its default level; it is right at ours."""
    text = function(
        "f", "%x: tensor<3x0xf32>, %y: tensor<0x4xf32>", "tensor<3x4xf32>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]"
        " : (tensor<3x0xf32>, tensor<0x4xf32>) -> tensor<3x4xf32>\nreturn %0 : tensor<3x4xf32>",
    )  # fmt: skip
    with pytest.raises(CompileError, match="a crash of the compiler"):
        compile_module(text, CPU(), flags=["--iree-opt-level=O0"], cache=False)
    executable = Executable.load(compile_module(legalized(text), CPU(), flags=["--iree-opt-level=O0"], cache=False))
    empty = np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)
    assert not np.asarray(executable.function("f")(empty)[0]).any()


@pytest.mark.parametrize("attributes", ["{iree.abi.consume}", "{iree.abi.output = 0 : index}"])
def test_iree_still_copies_what_is_given_away(attributes: str) -> None:
    """An argument that the caller gives up is not updated in its place, so there is no donation; results in memory of
    the caller's are what there is.
    """
    x = "tensor<65536xf32>"
    text = function(
        "f", f"%x: {x} {attributes}, %u: tensor<4xf32>, %i: tensor<i32>", x,
        f"%0 = stablehlo.dynamic_update_slice %x, %u, %i : ({x}, tensor<4xf32>, tensor<i32>) -> {x}\nreturn %0 : {x}",
    )  # fmt: skip
    streams = compile_module(text, CPU(), flags=["--compile-to=stream"], cache=False).decode()
    assert "stream.tensor.import" in streams
    assert "stream.cmd.copy" in streams, "IREE updates it in place: arguments can be donated"


PHILOX = """func.func @f(%s: tensor<3xui64>) -> tensor<4xui32> {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<4xui32>)
  return %1 : tensor<4xui32> }"""


def test_a_generator_that_iree_has_otherwise_is_an_error() -> None:
    with pytest.raises(RuleMissingError, match=r"PHILOX requires a state of 2 words, got 3"):
        legalized(PHILOX)
    assert legalized(PHILOX.replace("3xui64", "2xui64")) == str(parse_module(PHILOX.replace("3xui64", "2xui64")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0 = stablehlo.create_token : !stablehlo.token\nreturn %x : tensor<4xf32>", "stablehlo.create_token"),
        ('%0 = "stablehlo.after_all"() : () -> !stablehlo.token\nreturn %x : tensor<4xf32>', "stablehlo.after_all"),
        ("%0 = stablehlo.custom_call @mystery(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>", "mystery"),
        ("%0 = stablehlo.tanh %x : tensor<4xf32>\n%1 = tensor.cast %0 : tensor<4xf32> to tensor<*xf32>\n"
         "return %x : tensor<4xf32>", "tensor.cast"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_by_name(body: str, message: str) -> None:
    text = f"func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\n}}"
    with pytest.raises((ImportIRError, RuleMissingError), match=message):
        from_stablehlo(text, "f")(np.zeros(4, np.float32))


def test_a_shape_that_is_not_known_is_refused() -> None:
    text = "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { %0 = stablehlo.tanh %x : tensor<?xf32>\n return %0 : tensor<?xf32> }"
    with pytest.raises(ImportIRError, match=r"static shape"):
        from_stablehlo(text, "f")


# What IREE refuses and other tests have right: `test_legalize_structured.py`, `_indexing`, `_lapack` and `_vulkan`.
REFUSED_ELSEWHERE = {
    "batch_norm_grad": (CPU(), """func.func @f(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<4x3xf32> {
      %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %s, %s, %x) {epsilon = 0.1 : f32, feature_index = 1 : i64}
        : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>)
        -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
      return %0#0 : tensor<4x3xf32> }"""),
    "a scatter of two operands": (CPU(), """func.func @f(%x: tensor<4xf32>, %y: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %i = stablehlo.constant dense<1> : tensor<1x1xi32>
      %0:2 = "stablehlo.scatter"(%x, %x, %i, %y, %y) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
        stablehlo.return %c, %d : tensor<f32>, tensor<f32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
        : (tensor<4xf32>, tensor<4xf32>, tensor<1x1xi32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32> }"""),
    "lapack": (CPU(), """func.func @f(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>) {
      %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}}
        : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
      return %0#0, %0#1 : tensor<3x3xf32>, tensor<i32> }"""),
    "f64 on Vulkan": (Vulkan("lavapipe"), """func.func @f(%x: tensor<3xf64>) -> tensor<3xf64> {
      %0 = stablehlo.exponential %x : tensor<3xf64>
      return %0 : tensor<3xf64> }"""),
    "leading zeros of 64 bits on Vulkan": (Vulkan("lavapipe"), """func.func @f(%x: tensor<3xi64>) -> tensor<3xi64> {
      %0 = stablehlo.count_leading_zeros %x : tensor<3xi64>
      return %0 : tensor<3xi64> }"""),
    "float8 on CUDA": (CUDA("sm_80"), """func.func @f(%x: tensor<3xf32>) -> tensor<3xf8E5M2> {
      %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf8E5M2>
      return %0 : tensor<3xf8E5M2> }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_ELSEWHERE)
def test_iree_still_refuses_what_others_have_right(name: str) -> None:
    target, text = REFUSED_ELSEWHERE[name]
    with pytest.raises(CompileError):
        compile_module(text, target, cache=False)


ON_VULKAN = """
func.func @sort(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %y = stablehlo.negate %x : tensor<1000xf32>
  %0 = "stablehlo.sort"(%y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64, is_stable = false} : (tensor<1000xf32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32> }
func.func @grouped(%x: tensor<1x8x4xf32>, %k: tensor<3x2x4xf32>) -> tensor<1x6x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
       {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
       : (tensor<1x8x4xf32>, tensor<3x2x4xf32>) -> tensor<1x6x4xf32>
  return %0 : tensor<1x6x4xf32> }
func.func @log1p(%x: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.log_plus_one %x : tensor<1xf32>
  return %0 : tensor<1xf32> }
func.func @remainder(%x: tensor<1xf32>, %y: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.remainder %x, %y : tensor<1xf32>
  return %0 : tensor<1xf32> }
"""


@pytest.mark.slow
@pytest.mark.vulkan
def test_vulkan_is_still_wrong() -> None:
    need_vulkan()
    x, k = rng.normal(size=(1, 8, 4)).astype(np.float32), rng.normal(size=(3, 2, 4)).astype(np.float32)
    windows = np.stack([x[0, i : i + 3] for i in range(6)])
    halves = [np.einsum("wki,kio->wo", windows[..., 2 * g : 2 * g + 2], k[..., 2 * g : 2 * g + 2]) for g in (0, 1)]
    long, small, one = rng.normal(size=1000).astype(np.float32), np.float32([1e-7]), np.float32([1])
    calls = {
        "sort": ([long], np.sort(-long)),
        "grouped": ([x, k], np.concatenate(halves, 1)[None]),
        "log1p": ([small], np.log1p(small)),
        "remainder": ([one, np.float32([np.inf])], one),
    }
    original = Executable.load(compile_module(ON_VULKAN, Vulkan(), cache=False), "vulkan")
    legal = Executable.load(compile_module(legalized(ON_VULKAN, "vulkan"), Vulkan(), cache=False), "vulkan")
    for executable, right in ((original, False), (legal, True)):
        for name, (arguments, want) in calls.items():
            got = np.asarray(executable.function(name)(arguments)[0])
            assert np.allclose(got, want, rtol=1e-5, atol=1e-30 if name == "log1p" else 1e-5) == right, name
