// argument: [1, -1]
// answer: [63, 0]
func.func @f(%x: tensor<2xi64>) -> tensor<2xi64> {
  %0 = stablehlo.count_leading_zeros %x : tensor<2xi64>
  return %0 : tensor<2xi64>
}
