// argument: np.arange(8).reshape(1, 4, 2)
// argument: np.ones((3, 1, 2))
// answer: np.array([[[6, 9], [12, 15]]])
func.func @f(%x: tensor<1x4x2xf16>, %k: tensor<3x1x2xf16>) -> tensor<1x2x2xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
      : (tensor<1x4x2xf16>, tensor<3x1x2xf16>) -> tensor<1x2x2xf32>
  return %0 : tensor<1x2x2xf32>
}
