// argument: np.arange(1, 5)
// answer: 11 + np.array([1, 1, 4, 9, 16])
func.func @f(%x: tensor<4xf64>) -> tensor<5xf64> {
  %one = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = stablehlo.pad %x, %one, low = [1], high = [0], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<5xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<f64>
  %2 = stablehlo.multiply %x, %x : tensor<4xf64>
  %3 = stablehlo.pad %2, %one, low = [1], high = [0], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<5xf64>
  %4 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f64>) -> tensor<5xf64>
  %5 = stablehlo.add %4, %3 : tensor<5xf64>
  return %5 : tensor<5xf64>
}
