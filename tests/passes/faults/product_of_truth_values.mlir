// argument: [[True, False, True], [False, True, False], [True, False, True]]
// answer: [[True, False, True], [False, True, False], [True, False, True]]
func.func @f(%x: tensor<3x3xi1>) -> tensor<3x3xi1> {
  %0 = stablehlo.einsum %x, %x, config = "ij,jk->ki" : (tensor<3x3xi1>, tensor<3x3xi1>) -> tensor<3x3xi1>
  return %0 : tensor<3x3xi1>
}
