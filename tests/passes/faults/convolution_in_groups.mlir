// argument: np.ones((1, 8, 4))
// argument: np.arange(24).reshape(3, 2, 4)
// answer: np.broadcast_to(np.arange(24).reshape(6, 4).sum(0), (1, 6, 4))
func.func @f(%x: tensor<1x8x4xf32>, %k: tensor<3x2x4xf32>) -> tensor<1x6x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
      : (tensor<1x8x4xf32>, tensor<3x2x4xf32>) -> tensor<1x6x4xf32>
  return %0 : tensor<1x6x4xf32>
}
