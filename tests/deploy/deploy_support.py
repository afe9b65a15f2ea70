"""The module and the manifest that the deployment tests share."""

from nabla_mlir.runtime.manifest import Argument, Code, EntryPoint, Leaf, Manifest
from nabla_mlir.runtime.treespec import LEAF, NONE, TreeSpec, spec_of

DTYPES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "ui8",
    "uint16": "ui16",
    "uint32": "ui32",
    "uint64": "ui64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
}


def source() -> str:
    functions = [
        """func.func @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
             %0 = stablehlo.add %a, %b : tensor<4xf32>
             return %0 : tensor<4xf32> }""",
        """func.func @square64(%a: tensor<f64>) -> tensor<f64> {
             %0 = stablehlo.multiply %a, %a : tensor<f64>
             return %0 : tensor<f64> }""",
        """func.func @total(%a: tensor<1024xf32>) -> (tensor<f32>, tensor<1024xf32>) {
             %z = stablehlo.constant dense<0.0> : tensor<f32>
             %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
                  : (tensor<1024xf32>, tensor<f32>) -> tensor<f32>
             %1 = stablehlo.negate %a : tensor<1024xf32>
             return %0, %1 : tensor<f32>, tensor<1024xf32> }""",
        """func.func @empty(%a: tensor<0x3xf32>) -> (tensor<0x3xf32>, tensor<f32>) {
             %z = stablehlo.constant dense<0.0> : tensor<f32>
             %0 = stablehlo.add %a, %a : tensor<0x3xf32>
             %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1]
                  : (tensor<0x3xf32>, tensor<f32>) -> tensor<f32>
             return %0, %1 : tensor<0x3xf32>, tensor<f32> }""",
        """func.func @same(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }""",
        """func.func @store(%a: tensor<4xf32>) { util.global.store %a, @state : tensor<4xf32>
             return }""",
        """func.func @poke(%a: tensor<1xf32>) {
             %0 = util.global.load @state : tensor<4xf32>
             %i = stablehlo.constant dense<1> : tensor<i32>
             %1 = stablehlo.dynamic_update_slice %0, %a, %i
                  : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
             util.global.store %1, @state : tensor<4xf32>
             return }""",
        """func.func @read() -> tensor<4xf32> { %0 = util.global.load @state : tensor<4xf32>
             return %0 : tensor<4xf32> }""",
    ]
    for name, mlir in DTYPES.items():
        functions.append(
            f"""func.func @roll_{name}(%a: tensor<3x{mlir}>) -> tensor<3x{mlir}> {{
                  %0 = stablehlo.slice %a [1:3] : (tensor<3x{mlir}>) -> tensor<2x{mlir}>
                  %1 = stablehlo.slice %a [0:1] : (tensor<3x{mlir}>) -> tensor<1x{mlir}>
                  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<2x{mlir}>, tensor<1x{mlir}>) -> tensor<3x{mlir}>
                  return %2 : tensor<3x{mlir}> }}"""
        )
    state = "util.global private mutable @state = dense<0.0> : tensor<4xf32>"
    return "module @deploy {\n" + "\n".join([state, *functions]) + "\n}\n"


def leaf(name, *shape, dtype="float32"):
    return Leaf(name, shape, dtype)


def manifest(*targets) -> Manifest:
    params = spec_of({"w": 0, "b": 0})
    pair = (leaf("params['b']", 4), leaf("params['w']", 4))
    point = TreeSpec("namedtuple", (LEAF, LEAF), ("total", "negated"), "Point")
    return Manifest(
        entry_points=(
            EntryPoint("add", (Argument("params", params, pair),), LEAF, (leaf("", 4),), "The sum of both parameters."),
            EntryPoint("total", (Argument("x", LEAF, (leaf("x", 1024),)),), point, (leaf("total"), leaf("negated", 1024))),
            EntryPoint(
                "square",
                (Argument("x", LEAF, (leaf("x", dtype="float64"),)),),
                LEAF,
                (leaf("", dtype="float64"),),
                function="square64",
            ),
            EntryPoint("update", (Argument("x", LEAF, (leaf("x", 4),)),), NONE, (), function="store"),
            EntryPoint("state", (), LEAF, (leaf("", 4),), function="read"),
            EntryPoint(
                "count",
                (Argument("x", LEAF, (leaf("x", 3, dtype="uint8"),)),),
                LEAF,
                (leaf("", 3, dtype="uint8"),),
                function="roll_uint8",
            ),
        ),
        code=tuple(Code(target.to_json()) for target in targets),
        iree="3.13.0",
        nabla_mlir="0.1.0",
    )
