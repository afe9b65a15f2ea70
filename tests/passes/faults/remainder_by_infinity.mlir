// argument: [1]
// argument: [inf]
// answer: [1]
func.func @f(%x: tensor<1xf32>, %y: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.remainder %x, %y : tensor<1xf32>
  return %0 : tensor<1xf32>
}
