// RUN: nabla-opt %s --nabla-separate-uses | filecheck %s

// A sum that is broadcast along two dimensions is computed before what reads it; the second one is fused.
// CHECK-LABEL: func.func @both_ways
// CHECK: %[[S:.*]] = stablehlo.reduce
// CHECK-NEXT: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[S]]
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[STORED]], dims = [0]
// CHECK-NEXT: stablehlo.negate %[[STORED]]
// CHECK: stablehlo.reduce
// CHECK-NOT: iree_tensor_ext.compute_barrier.start
// CHECK: return
func.func @both_ways(%x: tensor<8x8xf32>, %z: tensor<f32>) -> tensor<8x8xf32> {
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %0 = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %n = stablehlo.negate %s : tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %n, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %m = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %3 = stablehlo.add %0, %1 : tensor<8x8xf32>
  %4 = stablehlo.add %3, %2 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
