// RUN: nabla-opt %s --nabla-split-convolutions | filecheck %s

// The window is wider than the result: a product for each of its two positions.
// CHECK-LABEL: func.func @wide_window
// CHECK-NOT: stablehlo.convolution
// CHECK-COUNT-2: stablehlo.dot_general
// CHECK: stablehlo.concatenate
func.func @wide_window(%x: tensor<2x9x3xf32>, %k: tensor<8x3x4xf32>) -> tensor<2x2x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x9x3xf32>, tensor<8x3x4xf32>) -> tensor<2x2x4xf32>
  return %0 : tensor<2x2x4xf32>
}
