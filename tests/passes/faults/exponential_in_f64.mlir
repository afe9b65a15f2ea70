// argument: [0]
// answer: [1]
func.func @f(%x: tensor<1xf64>) -> tensor<1xf64> {
  %0 = stablehlo.exponential %x : tensor<1xf64>
  return %0 : tensor<1xf64>
}
