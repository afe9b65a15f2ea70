// argument: [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
// answer: [[2, 2, 6, 8], [10, 4, 14, 16], [18, 6, 22, 24], [26, 8, 30, 32]]
func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.add %x, %x : tensor<4x4xf32>
  %row = stablehlo.slice %y [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %column = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4x1xf32>
  %0 = stablehlo.dynamic_update_slice %y, %column, %zero, %one
      : (tensor<4x4xf32>, tensor<4x1xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
