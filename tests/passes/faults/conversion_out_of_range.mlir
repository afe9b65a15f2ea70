// argument: [nan, 1e20, -1e20, 3.7]
// answer: [0, 2147483647, -2147483648, 3]
func.func @f(%x: tensor<4xf32>) -> tensor<4xi32> {
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
