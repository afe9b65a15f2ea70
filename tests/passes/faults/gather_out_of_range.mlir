// argument: [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]
// answer: [[6, 7], [4, 5]]
func.func @f(%x: tensor<8x2xf32>) -> tensor<2x2xf32> {
  %y = stablehlo.slice %x [0:4, 0:2] : (tensor<8x2xf32>) -> tensor<4x2xf32>
  %c = stablehlo.constant dense<[[5], [2]]> : tensor<2x1xi32>
  %i = stablehlo.optimization_barrier %c : tensor<2x1xi32>
  %0 = "stablehlo.gather"(%y, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
