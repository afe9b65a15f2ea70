// argument: [1, 2, 3, 4]
// argument: [9]
// answer: [9, 2, 3, 4]
func.func @f(%x: tensor<4xf32>, %u: tensor<1xf32>) -> tensor<4xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
