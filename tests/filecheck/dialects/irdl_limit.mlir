// RUN: nabla-opt %s | filecheck %s
// RUN: iree-opt --allow-unregistered-dialect %s | filecheck %s
// RUN: not iree-opt --irdl-file=%dialects/ad.irdl.mlir %s 2>&1 | filecheck %s --check-prefix=LIMIT

// A limit of IRDL in the LLVM of IREE 3.13: all elements of a variadic operand (or result) have to match one and the
// same constraint variable, so that a region operation whose operands differ in type is refused when the dialect comes
// from its IRDL file. nabla-opt takes it. When this test fails, the limit is gone: delete the third RUN line.
// CHECK-LABEL: func.func @two_types
// CHECK: "ad.jvp"
// LIMIT: error: {{.*}}expected 'tensor<3xf32>' but got 'tensor<f32>'
func.func @two_types(%x: tensor<3xf32>, %s: tensor<f32>, %t: tensor<3xf32>) -> tensor<3xf32> {
  %y, %dy = "ad.jvp"(%x, %s, %t) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<f32>):
    %c = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %c : tensor<3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<f32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %dy : tensor<3xf32>
}
