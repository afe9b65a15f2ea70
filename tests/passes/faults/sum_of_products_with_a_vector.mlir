// argument: [0, 0, 0]
// argument: [[1, 2, 3], [4, 5, 6]]
// answer: 21
func.func @f(%a: tensor<3xf32>, %b: tensor<2x3xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %e = stablehlo.exponential %0 : tensor<2x3xf32>
  %1 = stablehlo.multiply %e, %b : tensor<2x3xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
