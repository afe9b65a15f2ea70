// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-limit-memory)' --split-input-file | filecheck %s

// The first hidden layer is forgotten, and made again for its late reader, of an argument that is copied once the step before
// it is done: only then can the product be computed again.
// CHECK-LABEL: func.func @chain(
// CHECK-NOT: nabla.memory_limit
// CHECK: %[[FIRST:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK: %[[SECOND:.*]] = stablehlo.dot_general %[[FIRST]], %arg1
// CHECK: %[[THIRD:.*]] = stablehlo.dot_general %[[SECOND]], %arg1
// CHECK: %[[ONE:.*]] = stablehlo.slice %[[THIRD]]
// CHECK: %[[SIGN:.*]] = stablehlo.shift_right_logical
// CHECK: %[[ZERO:.*]] = stablehlo.shift_right_logical %[[SIGN]]
// CHECK: %[[COPY:.*]] = stablehlo.subtract %arg0
// CHECK: %[[LATE:.*]] = iree_tensor_ext.compute_barrier.start %[[COPY]]
// CHECK: %[[AGAIN:.*]] = stablehlo.dot_general %[[LATE]], %arg1
// CHECK: stablehlo.dot_general %[[THIRD]], %[[AGAIN]]
func.func @chain(%x: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x8xf32> attributes {nabla.memory_limit = 2304 : i64} {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %3 = stablehlo.dot_general %2, %0, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// -----

// With room for all nothing is done again, and without a limit neither.
// CHECK-LABEL: func.func @room(
// CHECK-NOT: nabla.memory_limit
// CHECK-NOT: compute_barrier
// CHECK-LABEL: func.func @free(
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @room(%x: tensor<32x32xf32>) -> tensor<32x32xf32> attributes {nabla.memory_limit = 1048576 : i64} {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %2 : tensor<32x32xf32>
}
func.func @free(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %2 : tensor<32x32xf32>
}

// -----

// What may not be computed twice stays: a callback of the user's, and what random bits it has drawn.
// CHECK-LABEL: func.func @effects(
// CHECK-COUNT-1: stablehlo.custom_call @roll
// CHECK-NOT: stablehlo.custom_call
// CHECK: return
func.func @effects(%x: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x8xf32> attributes {nabla.memory_limit = 2304 : i64} {
  %0 = stablehlo.custom_call @roll(%x) {has_side_effect = true} : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  %3 = stablehlo.dot_general %2, %0, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
