// argument: [[1, 2], [3, 4], [5, 6]]
// answer: [[2, 4], [2, 4], [6, 8]]
func.func @f(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.add %x, %x : tensor<3x2xf32>
  %rows = stablehlo.slice %y [0:2, 0:2] : (tensor<3x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.dynamic_update_slice %y, %rows, %one, %zero
      : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
