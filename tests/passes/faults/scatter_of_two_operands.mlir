// argument: [0.4, -0.6, 0.1, -0.1]
// argument: [0.2]
// answer: [0.4, 0.2, 0.1, -0.1]
func.func @f(%x: tensor<4xf32>, %y: tensor<1xf32>) -> tensor<4xf32> {
  %i = stablehlo.constant dense<1> : tensor<1x1xi32>
  %0:2 = "stablehlo.scatter"(%x, %x, %i, %y, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %c, %d : tensor<f32>, tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
      : (tensor<4xf32>, tensor<4xf32>, tensor<1x1xi32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}
