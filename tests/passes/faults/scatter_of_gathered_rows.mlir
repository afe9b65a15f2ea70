// argument: np.arange(8192)
// argument: np.arange(8192)[::-1, None] // 2
// answer: np.where(np.arange(8192) < 4096, 2 * np.arange(8192), 0)
func.func @f(%x: tensor<8192xf64>, %i: tensor<8192x1xi32>) -> tensor<8192xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<8192xf64>
  %rows = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = false
  } : (tensor<8192xf64>, tensor<8192x1xi32>) -> tensor<8192xf64>
  %sums = "stablehlo.scatter"(%zero, %i, %rows) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = false
  } : (tensor<8192xf64>, tensor<8192x1xi32>, tensor<8192xf64>) -> tensor<8192xf64>
  return %sums : tensor<8192xf64>
}
