// RUN: nabla-opt %s --nabla-sums-in-parts | filecheck %s

// A long sum is taken in two levels; what is left of a length without a divisor near its root is added.
// CHECK-LABEL: func.func @columns
// CHECK: stablehlo.reshape {{.*}} -> tensor<125x80x6xf32>
// CHECK: stablehlo.reduce{{.*}} dimensions = [1]
// CHECK: stablehlo.reduce{{.*}} dimensions = [0]
// CHECK: return
// CHECK-LABEL: func.func @prime
// CHECK: stablehlo.slice %{{.*}} [0:10000] : (tensor<10007xf32>) -> tensor<10000xf32>
// CHECK: stablehlo.slice %{{.*}} [10000:10007] : (tensor<10007xf32>) -> tensor<7xf32>
// CHECK: return
// CHECK-LABEL: func.func @short
// CHECK-NOT: stablehlo.reshape
// CHECK: return
func.func @columns(%x: tensor<10000x6xf32>, %z: tensor<f32>) -> tensor<6xf32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<10000x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
func.func @prime(%x: tensor<10007xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<10007xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @short(%x: tensor<1000xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1000xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
