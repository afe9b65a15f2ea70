// argument: [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
// answer: [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
func.func @f(%x: tensor<2x2x2xf32>) -> tensor<2x2x2xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2, 0] : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  return %0 : tensor<2x2x2xf32>
}
