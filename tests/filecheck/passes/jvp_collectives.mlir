// RUN: nabla-opt %s --nabla-jvp --nabla-vjp | filecheck %s

// The tangent of a sum over the entries is the sum of their tangents.
// CHECK-LABEL: func.func @jvp
// CHECK: ^bb0(%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>):
// CHECK: "batch.psum"(%[[X]]) {axis = "i"}
// CHECK: "batch.psum"(%[[T]]) {axis = "i"}
func.func @jvp(%xs: tensor<4xf32>, %ts: tensor<4xf32>) -> tensor<4xf32> {
  %y = "batch.vmap"(%xs, %ts) ({
  ^bb0(%x: tensor<f32>, %t: tensor<f32>):
    %p, %dp = "ad.jvp"(%x, %t) ({
    ^bb1(%a: tensor<f32>):
      %0 = "batch.psum"(%a) {axis = "i"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %1 = stablehlo.multiply %p, %dp : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// The adjoint of a sum is the sum of the cotangents; that of stacking is to sum and take one's own slice.
// CHECK-LABEL: func.func @vjp
// CHECK: ^bb0(%[[X:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>, %[[CS:.*]]: tensor<4xf32>):
// CHECK-DAG: "batch.psum"(%[[C]]) {axis = "i"}
// CHECK-DAG: "batch.psum_scatter"(%[[CS]]) {axis = "i", dimension = 0 : i64}
func.func @vjp(%xs: tensor<4xf32>, %cs: tensor<4xf32>, %css: tensor<4x4xf32>) -> tensor<4xf32> {
  %y = "batch.vmap"(%xs, %cs, %css) ({
  ^bb0(%x: tensor<f32>, %c: tensor<f32>, %cc: tensor<4xf32>):
    %p, %q, %dx = "ad.vjp"(%x, %c, %cc) ({
    ^bb1(%a: tensor<f32>):
      %0 = "batch.psum"(%a) {axis = "i"} : (tensor<f32>) -> tensor<f32>
      %1 = "batch.all_gather"(%a) {axis = "i", dimension = 0 : i64} : (tensor<f32>) -> tensor<4xf32>
      stablehlo.return %0, %1 : tensor<f32>, tensor<4xf32>
    }) {wrt = array<i64: 0>, of = array<i64: 0, 1>}
      : (tensor<f32>, tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<f32>)
    stablehlo.return %dx : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>, array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
