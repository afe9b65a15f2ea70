// RUN: nabla-opt %s --nabla-explain-batch | filecheck %s
// RUN: nabla-opt %s --explain-batch | filecheck %s
// RUN: nabla-opt %s --explain-batch --nabla-canonicalize-batch | filecheck %s --check-prefix=MERGED

// Each value carries the axes of what it is computed from; what is captured keeps those that it has.
// CHECK-LABEL: func.func @nested
// CHECK: stablehlo.sine %{{.*}} {batch.carries = {{\[}}["i"]]}
// CHECK: stablehlo.cosine %{{.*}} {batch.carries = {{\[}}["j"]]}
// CHECK: stablehlo.multiply %{{.*}} {batch.carries = {{\[}}["i", "j"]]}
// CHECK: axes = ["j"], batch.arguments = {{\[}}["j"]], batch.carries = {{\[}}["i"]]
// CHECK: axes = ["i"], batch.arguments = {{\[}}["i"]]
// MERGED-LABEL: func.func @nested
// MERGED: stablehlo.sine
// MERGED-SAME: batch.carries = {{\[}}["i"]]
func.func @nested(%xs: tensor<2xf32>, %ys: tensor<3xf32>) -> tensor<2x3xf32> {
  %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %s = stablehlo.sine %x : tensor<f32>
    %row = "batch.vmap"(%ys) ({
    ^bb1(%y: tensor<f32>):
      %c = stablehlo.cosine %y : tensor<f32>
      %p = stablehlo.multiply %s, %c : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {axes = ["j"], sizes = array<i64: 3>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %row : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

// A sum over an axis no longer carries it; the place of an entry does.
// CHECK-LABEL: func.func @collectives
// CHECK: "batch.psum"(%{{.*}}) {axis = "i", batch.carries = {{\[\[}}]]}
// CHECK: "batch.axis_index"() {axis = "i", batch.carries = {{\[}}["i"]]}
func.func @collectives(%xs: tensor<2xf32>) -> (tensor<f32>, tensor<2xi32>) {
  %s, %n = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %0 = "batch.psum"(%x) {axis = "i"} : (tensor<f32>) -> tensor<f32>
    %1 = "batch.axis_index"() {axis = "i"} : () -> tensor<i32>
    stablehlo.return %0, %1 : tensor<f32>, tensor<i32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: -1>, array<i64: 0>]}
    : (tensor<2xf32>) -> (tensor<f32>, tensor<2xi32>)
  return %s, %n : tensor<f32>, tensor<2xi32>
}

// Regions of control flow carry what they capture.
// CHECK-LABEL: func.func @control
// CHECK: "stablehlo.if"
// CHECK: {batch.carries = {{\[}}["i"]]}
// CHECK: axes = ["i"]
func.func @control(%p: tensor<i1>, %xs: tensor<2xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<f32>
    }, {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      stablehlo.return %z : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
