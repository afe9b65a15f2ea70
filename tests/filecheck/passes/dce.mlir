// RUN: nabla-opt %s --nabla-dce | filecheck %s

// A chain of operations that nothing uses goes, from its end.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine
// CHECK-NEXT: return %[[Y]]
func.func @chain(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.sine %x : tensor<3xf32>
  %0 = stablehlo.cosine %y : tensor<3xf32>
  %1 = stablehlo.add %0, %0 : tensor<3xf32>
  return %y : tensor<3xf32>
}

// MLIR's own passes would keep a transform that nothing uses.
// CHECK-LABEL: func.func @transform
// CHECK-NEXT: return
func.func @transform(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.sine %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %x : tensor<f32>
}

// Inside a body that is used, dead operations go as well.
// CHECK-LABEL: func.func @inside
// CHECK: batch.vmap
// CHECK-NOT: stablehlo.cosine
// CHECK: stablehlo.sine
func.func @inside(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    %dead = stablehlo.cosine %a : tensor<f32>
    %b = stablehlo.sine %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// What has an effect stays, also within a loop.
// CHECK-LABEL: func.func @effects
// CHECK: stablehlo.custom_call @print
// CHECK-NOT: stablehlo.custom_call @pure
func.func @effects(%x: tensor<3xf32>) {
  stablehlo.custom_call @print(%x) {has_side_effect = true} : (tensor<3xf32>) -> ()
  %0 = stablehlo.custom_call @pure(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return
}
