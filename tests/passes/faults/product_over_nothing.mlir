// argument: np.zeros((3, 0))
// argument: np.zeros((0, 2))
// answer: np.zeros((3, 2))
func.func @f(%x: tensor<3x0xf32>, %y: tensor<0x2xf32>) -> tensor<3x2xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<3x0xf32>, tensor<0x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
