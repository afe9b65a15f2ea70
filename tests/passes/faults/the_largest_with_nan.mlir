// argument: [[1, nan, 2, 5, inf, 3, 4, 1], [1, nan, 2, 5, inf, 3, 4, 1]]
// answer: [[1, 4, 3], [1, 4, 3]]
// answer: [[nan, inf, 5], [nan, inf, 5]]
func.func @f(%x: tensor<2x8xf32>) -> (tensor<2x3xi32>, tensor<2x3xf32>) {
  %v, %i = chlo.top_k(%x, k = 3) : tensor<2x8xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %i, %v : tensor<2x3xi32>, tensor<2x3xf32>
}
