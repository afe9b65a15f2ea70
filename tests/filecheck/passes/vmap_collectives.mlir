// RUN: nabla-opt %s --nabla-vmap | filecheck %s
// RUN: nabla-opt %s --nabla-canonicalize-batch | filecheck %s --check-prefix=CANONICAL

// Over the axis that is expanded a sum is a reduction, whose result does not vary; the place of an entry is an iota.
// CHECK-LABEL: func.func @own_axis
// CHECK-DAG: %[[I:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// CHECK-DAG: %[[S:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK: return %[[S]], %[[I]]
// CANONICAL-LABEL: func.func @own_axis
func.func @own_axis(%xs: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4xi32>) {
  %y, %i = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = "batch.psum"(%x) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
    %1 = "batch.axis_index"() {axis = "i"} : () -> tensor<i32>
    stablehlo.return %0, %1 : tensor<3xf32>, tensor<i32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: -1>, array<i64: 0>]}
    : (tensor<4x3xf32>) -> (tensor<3xf32>, tensor<4xi32>)
  return %y, %i : tensor<3xf32>, tensor<4xi32>
}

// Over an outer axis it passes through the inner map; the operand of an inner map may be shared.
// CHECK-LABEL: func.func @outer_axis
// CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf32>
// CHECK-NOT: stablehlo.reduce
// CANONICAL-LABEL: func.func @outer_axis
// CANONICAL: axes = ["i", "j"]
func.func @outer_axis(%xs: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %r = "batch.vmap"(%x) ({
    ^bb1(%e: tensor<f32>):
      %0 = "batch.psum"(%e) {axis = "i"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) {axes = ["j"], sizes = array<i64: 3>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %r : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// The inner one of two axes of one name hides the outer one, also when both become axes of one map.
// CHECK-LABEL: func.func @hidden
// CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
// CANONICAL-LABEL: func.func @hidden
// CANONICAL: "batch.psum"(%{{.*}}) {axis = "i_1"}
// CANONICAL: axes = ["i", "i_1"]
func.func @hidden(%xs: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %r = "batch.vmap"(%x) ({
    ^bb1(%e: tensor<f32>):
      %0 = "batch.psum"(%e) {axis = "i"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) {axes = ["i"], sizes = array<i64: 3>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %r : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// What depends on the axis through a collective is not hoisted out of its map, though no mapped value reaches it.
// CHECK-LABEL: func.func @not_hoisted
// CANONICAL-LABEL: func.func @not_hoisted
// CANONICAL-NEXT: "batch.vmap"(%arg1)
// CANONICAL: "batch.psum"(%arg0) {axis = "i"}
func.func @not_hoisted(%c: tensor<f32>, %xs: tensor<4xf32>) -> tensor<4xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %0 = "batch.psum"(%c) {axis = "i"} : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.add %x, %0 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// All entries stand along the new dimension; each takes back the slice that is its own.
// CHECK-LABEL: func.func @gathered
// CHECK: stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
// CHECK-NOT: broadcast
// CANONICAL-LABEL: func.func @gathered
func.func @gathered(%xs: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = "batch.all_gather"(%x) {axis = "i", dimension = 1 : i64} : (tensor<3xf32>) -> tensor<3x4xf32>
    stablehlo.return %0 : tensor<3x4xf32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: -1>]}
    : (tensor<4x3xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// A largest entry is a reduction; what is scattered is summed, and its dimension becomes the mapped axis.
// CHECK-LABEL: func.func @extreme_and_scatter
// CHECK-DAG: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.maximum across dimensions = [0]
// CHECK-DAG: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CANONICAL-LABEL: func.func @extreme_and_scatter
func.func @extreme_and_scatter(%xs: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<4xf32>):
    %0 = "batch.pmax"(%x) {axis = "i"} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "batch.psum_scatter"(%x) {axis = "i", dimension = 0 : i64} : (tensor<4xf32>) -> tensor<f32>
    stablehlo.return %0, %1 : tensor<4xf32>, tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 4>, in_axes = [array<i64: 0>], out_axes = [array<i64: -1>, array<i64: 0>]}
    : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}
