// RUN: nabla-opt %s --no-verify --nabla-verify --split-input-file --verify-diagnostics
// What the pass refuses, one message in each part; all messages are in tests/filecheck/errors/.

// A correct module passes and is not changed.
func.func @valid(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

// MLIR takes this: it does not know that the tangent has to be of the type of its primal.
func.func @tangent(%x: tensor<f32>, %t: tensor<2xf32>) -> tensor<f32> {
  // expected-error@below {{ad.jvp requires tangents of types (tensor<f32>), got (tensor<2xf32>).}}
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}
