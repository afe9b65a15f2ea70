// argument: [True, True, False]
// argument: [True, False, False]
// answer: [True, True, False]
func.func @f(%x: tensor<3xi1>, %y: tensor<3xi1>) -> tensor<3xi1> {
  %0 = stablehlo.add %x, %y : tensor<3xi1>
  return %0 : tensor<3xi1>
}
