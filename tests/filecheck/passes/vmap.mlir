// RUN: nabla-opt %s --nabla-vmap | filecheck %s

// A shared operand is not copied: its product with many vectors is one matrix product.
// CHECK-LABEL: func.func @dot_shared
// CHECK-SAME: (%[[W:.*]]: tensor<4x3xf32>, %[[XS:.*]]: tensor<5x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.dot_general %[[XS]], %[[W]], contracting_dims = [1] x [1] :
// CHECK-NEXT: return %[[Y]]
func.func @dot_shared(%w: tensor<4x3xf32>, %xs: tensor<5x3xf32>) -> tensor<5x4xf32> {
  %y = "batch.vmap"(%w, %xs) ({
  ^bb0(%a: tensor<4x3xf32>, %x: tensor<3xf32>):
    %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
    stablehlo.return %0 : tensor<4xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: -1>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<4x3xf32>, tensor<5x3xf32>) -> tensor<5x4xf32>
  return %y : tensor<5x4xf32>
}

// The same for one that is captured.
// CHECK-LABEL: func.func @dot_captured
// CHECK-SAME: (%[[W:.*]]: tensor<4x3xf32>, %[[XS:.*]]: tensor<5x3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.dot_general %[[XS]], %[[W]], contracting_dims = [1] x [1] :
// CHECK-NEXT: return %[[Y]]
func.func @dot_captured(%w: tensor<4x3xf32>, %xs: tensor<5x3xf32>) -> tensor<5x4xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [1] : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
    stablehlo.return %0 : tensor<4xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x3xf32>) -> tensor<5x4xf32>
  return %y : tensor<5x4xf32>
}

// Where both vary, the axis is a batching dimension, and the numbers of the others shift.
// CHECK-LABEL: func.func @dot_both
// CHECK: stablehlo.dot_general {{.*}}, batching_dims = [0] x [0], contracting_dims = [2] x [1]
func.func @dot_both(%ws: tensor<5x4x3xf32>, %xs: tensor<5x3xf32>) -> tensor<5x4xf32> {
  %y = "batch.vmap"(%ws, %xs) ({
  ^bb0(%w: tensor<4x3xf32>, %x: tensor<3xf32>):
    %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
    stablehlo.return %0 : tensor<4xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x4x3xf32>, tensor<5x3xf32>) -> tensor<5x4xf32>
  return %y : tensor<5x4xf32>
}

// Inside, the mapped axis leads; in_axes and out_axes are settled at the boundary.
// CHECK-LABEL: func.func @places
// CHECK-NEXT: %[[IN:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0]
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[IN]] : tensor<5x3xf32>
// CHECK-NEXT: %[[OUT:.*]] = stablehlo.transpose %[[Y]], dims = [1, 0]
// CHECK-NEXT: return %[[OUT]]
func.func @places(%xs: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 1>], out_axes = [array<i64: 1>]}
    : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// What does not vary is computed once, and broadcast at the end if a result asks for the axis.
// CHECK-LABEL: func.func @invariant
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %{{.*}} : tensor<3xf32>
// CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[Y]], dims = [1] : (tensor<3xf32>) -> tensor<5x3xf32>
// CHECK-NEXT: return %[[B]], %[[Y]]
func.func @invariant(%x: tensor<3xf32>, %s: tensor<5xf32>) -> (tensor<5x3xf32>, tensor<3xf32>) {
  %y, %z = "batch.vmap"(%x, %s) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<f32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %0, %0 : tensor<3xf32>, tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: -1>, array<i64: 0>],
      out_axes = [array<i64: 0>, array<i64: -1>]}
    : (tensor<3xf32>, tensor<5xf32>) -> (tensor<5x3xf32>, tensor<3xf32>)
  return %y, %z : tensor<5x3xf32>, tensor<3xf32>
}

// Broadcast late: the sine of the shared operand is taken before it meets the axis.
// CHECK-LABEL: func.func @broadcast_late
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %{{.*}} : tensor<3xf32>
// CHECK-NEXT: %[[B:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [1] : (tensor<3xf32>) -> tensor<5x3xf32>
// CHECK-NEXT: stablehlo.multiply %[[B]]
func.func @broadcast_late(%x: tensor<3xf32>, %s: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %y = "batch.vmap"(%x, %s) ({
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %0 = stablehlo.sine %a : tensor<3xf32>
    %1 = stablehlo.multiply %0, %b : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: -1>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// Attributes that name axes shift by one; a constant of the body is not copied.
// CHECK-LABEL: func.func @shifts
// CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [0, 2, 1]
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.0{{.*}}> : tensor<f32>
// CHECK-NEXT: stablehlo.reduce(%{{.*}} init: %[[ZERO]]) applies stablehlo.add across dimensions = [1]
func.func @shifts(%xs: tensor<5x2x3xf32>) -> (tensor<5x3x2xf32>, tensor<5x3xf32>) {
  %y, %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<2x3xf32>):
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    stablehlo.return %0, %1 : tensor<3x2xf32>, tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>, array<i64: 0>]}
    : (tensor<5x2x3xf32>) -> (tensor<5x3x2xf32>, tensor<5x3xf32>)
  return %y, %z : tensor<5x3x2xf32>, tensor<5x3xf32>
}

// Several axes at once, each carried by one operand: all pairs, in one matrix product.
// CHECK-LABEL: func.func @pairs
// CHECK-SAME: (%[[X:.*]]: tensor<5x3xf32>, %[[Y:.*]]: tensor<7x3xf32>)
// CHECK-NEXT: %[[XY:.*]] = stablehlo.dot_general %[[X]], %[[Y]], contracting_dims = [1] x [1]
// CHECK-NEXT: return %[[XY]]
func.func @pairs(%xs: tensor<5x3xf32>, %ys: tensor<7x3xf32>) -> tensor<5x7xf32> {
  %y = "batch.vmap"(%xs, %ys) ({
  ^bb0(%x: tensor<3xf32>, %y: tensor<3xf32>):
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {axes = ["i", "j"], sizes = array<i64: 5, 7>, in_axes = [array<i64: 0, -1>, array<i64: -1, 0>],
      out_axes = [array<i64: 0, 1>]} : (tensor<5x3xf32>, tensor<7x3xf32>) -> tensor<5x7xf32>
  return %y : tensor<5x7xf32>
}

// A map without entries computes nothing.
// CHECK-LABEL: func.func @no_entries
// CHECK-NEXT: %[[Y:.*]] = stablehlo.constant dense<{{.*}}> : tensor<0x3xf32>
// CHECK-NEXT: return %[[Y]]
func.func @no_entries(%xs: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %0 = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 0>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<0x3xf32>) -> tensor<0x3xf32>
  return %y : tensor<0x3xf32>
}
