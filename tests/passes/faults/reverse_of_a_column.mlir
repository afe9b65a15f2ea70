// argument: np.arange(72).reshape(3, 6, 4)
// answer: np.arange(72).reshape(3, 6, 4)[::-1, :, 1]
func.func @f(%x: tensor<3x6x4xf64>) -> tensor<3x6xf64> {
  %0 = stablehlo.slice %x [0:3, 0:6, 1:2] : (tensor<3x6x4xf64>) -> tensor<3x6x1xf64>
  %1 = stablehlo.reshape %0 : (tensor<3x6x1xf64>) -> tensor<3x6xf64>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<3x6xf64>
  return %2 : tensor<3x6xf64>
}
