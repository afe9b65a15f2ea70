// RUN: nabla-opt %s --nabla-gather-patches | filecheck %s

// One axis: a product of all patches.
// CHECK-LABEL: func.func @signal
// CHECK-COUNT-2: stablehlo.slice
// CHECK: stablehlo.concatenate {{.*}} -> tensor<4x9x6xf32>
// CHECK-NOT: stablehlo.convolution
// CHECK: return
func.func @signal(%x: tensor<4x10x3xf32>, %k: tensor<2x3x5xf32>) -> tensor<4x9x5xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x10x3xf32>, tensor<2x3x5xf32>) -> tensor<4x9x5xf32>
  return %0 : tensor<4x9x5xf32>
}
