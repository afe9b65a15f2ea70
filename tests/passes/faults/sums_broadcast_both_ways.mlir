// argument: np.arange(96 * 24).reshape(96, 24) % 7
// answer: np.add.outer(*2 * [(np.arange(96 * 24).reshape(96, 24) % 7).sum(1)])
func.func @f(%x: tensor<96x24xf32>) -> tensor<96x96xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<96x24xf32>, tensor<f32>) -> tensor<96xf32>
  %rows = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<96xf32>) -> tensor<96x96xf32>
  %columns = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<96xf32>) -> tensor<96x96xf32>
  %0 = stablehlo.add %rows, %columns : tensor<96x96xf32>
  return %0 : tensor<96x96xf32>
}
