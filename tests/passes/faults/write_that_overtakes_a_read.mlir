// argument: [[20, 21], [22, 23]]
// argument: [[9, 9]]
// answer: [[9, 9], [44, 46]]
// answer: [[5, 6], [7, 8]]
// answer: [[40, 42], [44, 46]]
func.func @f(%x: tensor<2x2xf32>, %u: tensor<1x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %k = stablehlo.constant dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>
  %y = stablehlo.add %x, %x : tensor<2x2xf32>
  %0 = stablehlo.dynamic_update_slice %y, %u, %i, %i : (tensor<2x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
  return %0, %k, %y : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
