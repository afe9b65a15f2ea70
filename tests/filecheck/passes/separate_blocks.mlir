// RUN: nabla-opt %s --nabla-separate-blocks | filecheck %s

// One matrix with each of two, as a map makes it: one product after the other, and no axis is moved.
// CHECK-LABEL: func.func @shared_left
// CHECK-NOT: stablehlo.transpose
// CHECK-COUNT-2: stablehlo.dot_general %arg0, %{{.*}} : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
// CHECK: stablehlo.concatenate
func.func @shared_left(%a: tensor<4x3xf32>, %v: tensor<2x3x5xf32>) -> tensor<2x4x5xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<4x3xf32>, tensor<2x3x5xf32>) -> tensor<4x2x5xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
  return %2 : tensor<2x4x5xf32>
}

// Over their last axis the two are one matrix.
// CHECK-LABEL: func.func @shared_right
// CHECK: %[[ROWS:.*]] = stablehlo.reshape %arg0 : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
// CHECK-NEXT: stablehlo.dot_general %[[ROWS]], %arg1
func.func @shared_right(%v: tensor<2x3x5xf32>, %a: tensor<5x4xf32>) -> tensor<2x3x4xf32> {
  %1 = stablehlo.dot_general %v, %a, contracting_dims = [2] x [0] : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}
