// argument: np.arange(300.)
// argument: np.arange(128.)
// answer: np.convolve(np.arange(300.), np.arange(128.))[None, None]
func.func @f(%x: tensor<300xf32>, %w: tensor<128xf32>) -> tensor<1x1x427xf32> {
  %0 = stablehlo.reshape %x : (tensor<300xf32>) -> tensor<1x1x300xf32>
  %1 = stablehlo.reshape %w : (tensor<128xf32>) -> tensor<1x1x128xf32>
  %2 = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[127, 127]], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x300xf32>, tensor<1x1x128xf32>) -> tensor<1x1x427xf32>
  return %2 : tensor<1x1x427xf32>
}
