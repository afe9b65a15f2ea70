// RUN: nabla-opt %s --nabla-order-axes | filecheck %s

// Elementwise operations go before a transpose, and a sum takes what is left of it.
// CHECK-LABEL: func.func @sunk
// CHECK-NOT: stablehlo.transpose
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<25x10xf32>) -> tensor<25x10x1000xf32>
// CHECK: %[[P:.*]] = stablehlo.multiply %arg0, %[[B]] : tensor<25x10x1000xf32>
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[P]] {{.*}} across dimensions = [1] {{.*}} -> tensor<25x1000xf32>
// CHECK: stablehlo.transpose {{.*}} (tensor<25x1000xf32>) -> tensor<1000x25xf32>
func.func @sunk(%x: tensor<25x10x1000xf32>, %d: tensor<25x10xf32>) -> tensor<1000x25xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<25x10x1000xf32>) -> tensor<1000x25x10xf32>
  %1 = stablehlo.broadcast_in_dim %d, dims = [1, 2] : (tensor<25x10xf32>) -> tensor<1000x25x10xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<1000x25x10xf32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [2] : (tensor<1000x25x10xf32>, tensor<f32>) -> tensor<1000x25xf32>
  return %3 : tensor<1000x25xf32>
}

// A transpose is not fused with what it is of, and what reads it.
// CHECK-LABEL: func.func @stored_transpose
// CHECK: %[[E:.*]] = stablehlo.exponential
// CHECK: %[[H:.*]] = iree_tensor_ext.compute_barrier.start %[[E]]
// CHECK: %[[T:.*]] = stablehlo.transpose %[[H]]
// CHECK: %[[HT:.*]] = iree_tensor_ext.compute_barrier.start %[[T]]
// CHECK: stablehlo.add %[[E]], %[[HT]]
func.func @stored_transpose(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %0 = stablehlo.exponential %x : tensor<100x100xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<100x100xf32>) -> tensor<100x100xf32>
  %2 = stablehlo.add %0, %1 : tensor<100x100xf32>
  return %2 : tensor<100x100xf32>
}
