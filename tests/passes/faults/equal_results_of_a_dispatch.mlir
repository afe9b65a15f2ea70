// argument: [True, False]
// argument: [2.0, 3.0]
// answer: [4.0, 6.0]
// answer: [4.0, 0.0]
// answer: [4.0, 0.0]
func.func @f(%c: tensor<2xi1>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  %1 = stablehlo.select %c, %0, %zero : tensor<2xi1>, tensor<2xf32>
  %2 = stablehlo.select %c, %1, %zero : tensor<2xi1>, tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
