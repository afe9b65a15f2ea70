// argument: [-2, -0.5, 3]
// argument: [3, 2, 2]
// answer: [-8, 0.25, 9]
func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.power %x, %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}
