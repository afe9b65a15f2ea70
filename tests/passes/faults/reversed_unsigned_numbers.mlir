// argument: [0, 1, 2, 3, 4, 5]
// answer: [5, 4, 3, 2, 1, 0]
func.func @f(%x: tensor<6xui32>) -> tensor<6xui32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<6xui32>
  return %0 : tensor<6xui32>
}
