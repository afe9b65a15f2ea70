// argument: [[0.7, 1, -0.6, 1.8], [-1.3, -0.7, 0.9, 0], [2, 0.2, -0.6, -0.4]]
// argument: [-1.1, -1.3]
// answer: [[0.7, 1, -0.6, 1.8], [-1.3, -0.7, -0.2, 0], [2, 0.2, -1.9, -0.4]]
func.func @f(%x: tensor<3x4xf32>, %y: tensor<2xf32>) -> tensor<3x4xf32> {
  %i = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = "stablehlo.scatter"(%x, %i, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1],
        scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>, indices_are_sorted = false, unique_indices = false}
      : (tensor<3x4xf32>, tensor<2xi32>, tensor<2xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
