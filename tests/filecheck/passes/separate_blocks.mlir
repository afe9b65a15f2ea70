// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-separate-blocks{vector-bytes=32})' | filecheck %s

// One matrix with each of two, as a map makes it: the axis of the map comes first, and each small matrix is transposed.
// CHECK-LABEL: func.func @shared_left
// CHECK: %[[SWAPPED:.*]] = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [1] : {{.*}} -> tensor<2x5x4xf32>
// CHECK-NEXT: %[[EACH:.*]] = stablehlo.transpose %[[SWAPPED]], dims = [0, 2, 1]
// CHECK-NEXT: return %[[EACH]]
func.func @shared_left(%a: tensor<4x3xf32>, %v: tensor<2x3x5xf32>) -> tensor<2x4x5xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<4x3xf32>, tensor<2x3x5xf32>) -> tensor<4x2x5xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<4x2x5xf32>) -> tensor<2x4x5xf32>
  return %2 : tensor<2x4x5xf32>
}

// Large ones of few rows: one product after the other, and no axis is moved.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: stablehlo.transpose
// CHECK-COUNT-2: stablehlo.dot_general %arg0, %{{.*}} : (tensor<8x200xf32>, tensor<200x200xf32>) -> tensor<8x200xf32>
// CHECK: stablehlo.concatenate
func.func @few_rows(%a: tensor<8x200xf32>, %v: tensor<2x200x200xf32>) -> tensor<2x8x200xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<8x200xf32>, tensor<2x200x200xf32>) -> tensor<8x2x200xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<8x2x200xf32>) -> tensor<2x8x200xf32>
  return %2 : tensor<2x8x200xf32>
}

// What the kernel for large products takes stays: it writes its result in any order.
// CHECK-LABEL: func.func @large
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK-NEXT: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
func.func @large(%a: tensor<128x200xf32>, %v: tensor<2x200x100xf32>) -> tensor<2x128x100xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<128x200xf32>, tensor<2x200x100xf32>) -> tensor<128x2x100xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<128x2x100xf32>) -> tensor<2x128x100xf32>
  return %2 : tensor<2x128x100xf32>
}

// Over their last axis the two are one matrix.
// CHECK-LABEL: func.func @shared_right
// CHECK: %[[ROWS:.*]] = stablehlo.reshape %arg0 : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
// CHECK-NEXT: stablehlo.dot_general %[[ROWS]], %arg1
func.func @shared_right(%v: tensor<2x3x5xf32>, %a: tensor<5x4xf32>) -> tensor<2x3x4xf32> {
  %1 = stablehlo.dot_general %v, %a, contracting_dims = [2] x [0] : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// Over their middle axis nothing is moved either way.
// CHECK-LABEL: func.func @transposed_left
// CHECK-NEXT: stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
// CHECK-NEXT: return
func.func @transposed_left(%v: tensor<2x3x5xf32>, %a: tensor<3x4xf32>) -> tensor<2x5x4xf32> {
  %1 = stablehlo.dot_general %v, %a, contracting_dims = [1] x [0] : (tensor<2x3x5xf32>, tensor<3x4xf32>) -> tensor<2x5x4xf32>
  return %1 : tensor<2x5x4xf32>
}
