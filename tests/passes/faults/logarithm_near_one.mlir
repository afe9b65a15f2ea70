// argument: [1e-7]
// answer: [1]
func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.log_plus_one %x : tensor<1xf32>
  %1 = stablehlo.divide %0, %x : tensor<1xf32>
  return %1 : tensor<1xf32>
}
