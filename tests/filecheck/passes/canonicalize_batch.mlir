// RUN: nabla-opt %s --nabla-canonicalize-batch | filecheck %s
// RUN: nabla-opt %s --nabla-canonicalize-batch --nabla-expand | filecheck %s --check-prefix=EXPANDED

// The prefix leads: axes that stand elsewhere are moved at the boundary of the map.
// CHECK-LABEL: func.func @leading_prefix
// CHECK-NEXT: %[[IN:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0]
// CHECK-NEXT: %[[M:.*]] = "batch.vmap"(%[[IN]])
// CHECK: in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]
// CHECK-NEXT: %[[OUT:.*]] = stablehlo.transpose %[[M]], dims = [1, 0]
// CHECK-NEXT: return %[[OUT]]
func.func @leading_prefix(%xs: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 1>], out_axes = [array<i64: 1>]}
    : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// What no mapped argument reaches is computed once, before the map; what is shared is not passed into it.
// CHECK-LABEL: func.func @hoisted
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[S:.*]]: tensor<5x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: "batch.vmap"(%[[S]])
// CHECK-NEXT: ^bb0(%[[B:.*]]: tensor<3xf32>):
// CHECK-NEXT: stablehlo.multiply %[[Y]], %[[B]]
func.func @hoisted(%x: tensor<3xf32>, %s: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %y = "batch.vmap"(%x, %s) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    %1 = stablehlo.multiply %0, %b : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: -1>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// A map of a map is one map over both axes. They keep their identity, also when they have one name and one size.
// CHECK-LABEL: func.func @merged
// CHECK-NEXT: "batch.vmap"(%{{.*}})
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>):
// CHECK-NOT: batch.vmap
// CHECK: axes = ["i", "i_1"], in_axes = [array<i64: 0, 1>], out_axes = [array<i64: 0, 1>], sizes = array<i64: 2, 2>
func.func @merged(%xs: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<2xf32>):
    %row = "batch.vmap"(%x) ({
    ^bb0(%e: tensor<f32>):
      %d = stablehlo.sine %e : tensor<f32>
      stablehlo.return %d : tensor<f32>
    }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %row : tensor<2xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}

// An entry of the outer map that the inner one captures is passed into the map over both: it carries the outer axis.
// CHECK-LABEL: func.func @captured
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: "batch.vmap"(%[[Y]], %[[X]])
// CHECK-NOT: batch.vmap
// CHECK: in_axes = [array<i64: -1, 0>, array<i64: 0, -1>]
func.func @captured(%xs: tensor<2xf32>, %ys: tensor<3xf32>) -> tensor<2x3xf32> {
  %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %row = "batch.vmap"(%ys) ({
    ^bb1(%y: tensor<f32>):
      %p = stablehlo.multiply %x, %y : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {axes = ["j"], sizes = array<i64: 3>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %row : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

// What is only broadcast along the axis does not carry it: it is used from outside, and what depends on it is hoisted.
// CHECK-LABEL: func.func @broadcast_operand
// CHECK-SAME: (%[[W:.*]]: tensor<3xf32>, %[[X:.*]]: tensor<5x3xf32>)
// CHECK: %[[S:.*]] = stablehlo.sine %[[W]] : tensor<3xf32>
// CHECK-NEXT: "batch.vmap"(%[[X]])
// CHECK: stablehlo.multiply %[[S]], %{{.*}} : tensor<3xf32>
func.func @broadcast_operand(%w: tensor<3xf32>, %xs: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %ws = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<3xf32>) -> tensor<5x3xf32>
  %y = "batch.vmap"(%ws, %xs) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    %1 = stablehlo.multiply %0, %b : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// A move at the boundary takes in a transpose that stands before it, and they may cancel.
// CHECK-LABEL: func.func @moves_cancel
// CHECK-SAME: (%[[X:.*]]: tensor<5x3xf32>)
// CHECK: "batch.vmap"(%[[X]])
func.func @moves_cancel(%xs: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %t = stablehlo.transpose %xs, dims = [1, 0] : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %y = "batch.vmap"(%t) ({
  ^bb0(%a: tensor<3xf32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 1>], out_axes = [array<i64: 0>]}
    : (tensor<3x5xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// An operand that the body does not use is dropped.
// CHECK-LABEL: func.func @unused
// CHECK-SAME: (%[[X:.*]]: tensor<5x3xf32>, %{{.*}}: tensor<5x3xf32>)
// CHECK-NEXT: "batch.vmap"(%[[X]])
func.func @unused(%xs: tensor<5x3xf32>, %ys: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %y = "batch.vmap"(%xs, %ys) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// Maps of products of one matrix with vectors, a map inside a map, become one product of matrices.
// CHECK-LABEL: func.func @matrix_products
// CHECK: axes = ["i", "j"]
// EXPANDED-LABEL: func.func @matrix_products
// EXPANDED-NEXT: %[[P:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [2] x [1] : (tensor<2x5x3xf32>, tensor<4x3xf32>) -> tensor<2x5x4xf32>
// EXPANDED-NEXT: return %[[P]]
func.func @matrix_products(%w: tensor<4x3xf32>, %xs: tensor<2x5x3xf32>) -> tensor<2x5x4xf32> {
  %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<5x3xf32>):
    %rows = "batch.vmap"(%w, %x) ({
    ^bb1(%a: tensor<4x3xf32>, %v: tensor<3xf32>):
      %p = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
      stablehlo.return %p : tensor<4xf32>
    }) {axes = ["j"], sizes = array<i64: 5>, in_axes = [array<i64: -1>, array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<4x3xf32>, tensor<5x3xf32>) -> tensor<5x4xf32>
    stablehlo.return %rows : tensor<5x4xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2x5x3xf32>) -> tensor<2x5x4xf32>
  return %z : tensor<2x5x4xf32>
}
