// argument: [1e-37, -2e-37, 1e-36, 0.5]
// answer: [1.1283792, -2.2567583, 11.283792, 5.204999e36]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %large = stablehlo.constant dense<1.0e37> : tensor<4xf32>
  %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  %1 = stablehlo.multiply %0, %large : tensor<4xf32>
  return %1 : tensor<4xf32>
}
