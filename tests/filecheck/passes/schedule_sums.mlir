// RUN: nabla-opt %s --nabla-schedule-sums | filecheck %s

// A sum over columns is a product with ones.
// CHECK-LABEL: func.func @columns
// CHECK: %[[ONES:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<200xf32>
// CHECK: stablehlo.dot_general %{{.*}}, %[[ONES]], contracting_dims = [0] x [0]
func.func @columns(%x: tensor<200x100xf32>) -> tensor<100xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<200x100xf32>, tensor<f32>) -> tensor<100xf32>
  return %0 : tensor<100xf32>
}

// A sum over everything begins with the last dimension.
// CHECK-LABEL: func.func @everything
// CHECK: %[[ROWS:.*]] = stablehlo.reduce{{.*}} across dimensions = [1]
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[ROWS]]
// CHECK: stablehlo.reduce(%[[STORED]] {{.*}} across dimensions = [0]
func.func @everything(%x: tensor<200x100xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<200x100xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
