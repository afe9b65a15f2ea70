// RUN: nabla-opt %s --nabla-products-in-parts | filecheck %s

// 100,000 terms: 400 parts of 250, whose products are added.
// CHECK-LABEL: func.func @dot
// CHECK: %[[X:.*]] = stablehlo.reshape %arg0 : (tensor<100000xf32>) -> tensor<[[P:[0-9]+]]x[[W:[0-9]+]]xf32>
// CHECK: %[[PARTS:.*]] = stablehlo.dot_general {{.*}} batching_dims = [0] x [0], contracting_dims = [1] x [1]
// CHECK-SAME: -> tensor<[[P]]xf32>
// CHECK: stablehlo.reduce(%[[PARTS]]
func.func @dot(%x: tensor<100000xf32>, %y: tensor<100000xf32>) -> tensor<f32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<100000xf32>, tensor<100000xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A length that has no such divisor leaves a rest. The parts keep the other axes in their order.
// CHECK-LABEL: func.func @matrices
// CHECK: stablehlo.slice %arg0
// CHECK: stablehlo.dot_general {{.*}} batching_dims = [1, 0] x [0, 2], contracting_dims = [2] x [1]
// CHECK: stablehlo.dot_general {{.*}} batching_dims = [0] x [1], contracting_dims = [1] x [0]
// CHECK: stablehlo.add
func.func @matrices(%x: tensor<2x100003x3xf32>, %y: tensor<100003x2x4xf32>) -> tensor<2x3x4xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [1] x [0]
    : (tensor<2x100003x3xf32>, tensor<100003x2x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @short
// CHECK-NOT: stablehlo.reduce
func.func @short(%x: tensor<3x1000xf32>, %y: tensor<1000x3xf32>) -> tensor<3x3xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<3x1000xf32>, tensor<1000x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
