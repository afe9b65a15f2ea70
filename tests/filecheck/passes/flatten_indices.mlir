// RUN: nabla-opt %s --nabla-flatten-indices | filecheck %s

// An element by its row and its column: both are kept within the matrix, and one index is computed of them.
// CHECK-LABEL: func.func @elements
// CHECK: %[[FLAT:.*]] = stablehlo.reshape %arg0 : (tensor<4x5xf32>) -> tensor<20xf32>
// CHECK: %[[LOW:.*]] = stablehlo.maximum %arg1
// CHECK: %[[ROW:.*]] = stablehlo.minimum %[[LOW]]
// CHECK: %[[START:.*]] = stablehlo.multiply %[[ROW]]
// CHECK: %[[COLUMN:.*]] = stablehlo.minimum
// CHECK: %[[PLACE:.*]] = stablehlo.add %[[START]], %[[COLUMN]]
// CHECK: "stablehlo.gather"(%[[FLAT]], %[[PLACE]])
// CHECK-SAME: collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1
func.func @elements(%x: tensor<4x5xf32>, %i: tensor<3x1xi32>, %j: tensor<3x1xi32>) -> tensor<3xf32> {
  %ij = stablehlo.concatenate %i, %j, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  %0 = "stablehlo.gather"(%x, %ij) {slice_sizes = array<i64: 1, 1>, dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>} : (tensor<4x5xf32>, tensor<3x2xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Rows of each matrix of a batch, in the order of the columns of the index vectors: the second names the first dimension.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: stablehlo.minimum
// CHECK: "stablehlo.gather"
// CHECK-SAME: offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2
// CHECK-SAME: slice_sizes = array<i64: 1, 1, 6>
// CHECK-SAME: (tensor<2x12x6xf32>, tensor<2x3x1xi32>)
func.func @rows(%x: tensor<2x3x4x6xf32>) -> tensor<2x3x6xf32> {
  %i = stablehlo.iota dim = 1 : tensor<2x3x1xi32>
  %j = stablehlo.constant dense<2> : tensor<2x3x1xi32>
  %ji = stablehlo.concatenate %j, %i, dim = 2 : (tensor<2x3x1xi32>, tensor<2x3x1xi32>) -> tensor<2x3x2xi32>
  %0 = "stablehlo.gather"(%x, %ji) {slice_sizes = array<i64: 1, 1, 1, 6>, dimension_numbers = #stablehlo.gather<offset_dims = [2],
      collapsed_slice_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1],
      index_vector_dim = 2>} : (tensor<2x3x4x6xf32>, tensor<2x3x2xi32>) -> tensor<2x3x6xf32>
  return %0 : tensor<2x3x6xf32>
}

// An update outside of the columns would be one of the next row: it goes behind the end instead.
// CHECK-LABEL: func.func @updates
// CHECK: %[[OUTSIDE:.*]] = stablehlo.constant dense<20>
// CHECK: %[[INDEX:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[OUTSIDE]]
// CHECK: %[[SUMS:.*]] = "stablehlo.scatter"(%{{.*}}, %[[INDEX]], %arg2)
// CHECK: inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1
// CHECK: stablehlo.reshape %[[SUMS]] : (tensor<20xf32>) -> tensor<4x5xf32>
func.func @updates(%x: tensor<4x5xf32>, %j: tensor<4x1xi32>, %u: tensor<4xf32>) -> tensor<4x5xf32> {
  %i = stablehlo.iota dim = 0 : tensor<4x1xi32>
  %ij = stablehlo.concatenate %i, %j, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
  %0 = "stablehlo.scatter"(%x, %ij, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}
    : (tensor<4x5xf32>, tensor<4x2xi32>, tensor<4xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// Dimensions that are apart, and windows of several elements, stay as they are.
// CHECK-LABEL: func.func @others
// CHECK: "stablehlo.gather"(%arg0,
// CHECK: "stablehlo.gather"(%arg0,
func.func @others(%x: tensor<4x5x6xf32>, %i: tensor<3x1xi32>, %j: tensor<3x1xi32>) -> (tensor<3x5xf32>, tensor<3x2x6xf32>) {
  %ij = stablehlo.concatenate %i, %j, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  %0 = "stablehlo.gather"(%x, %ij) {slice_sizes = array<i64: 1, 5, 1>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0, 2], start_index_map = [0, 2], index_vector_dim = 1>} : (tensor<4x5x6xf32>, tensor<3x2xi32>) -> tensor<3x5xf32>
  %1 = "stablehlo.gather"(%x, %ij) {slice_sizes = array<i64: 1, 2, 6>, dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
      collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>} : (tensor<4x5x6xf32>, tensor<3x2xi32>) -> tensor<3x2x6xf32>
  return %0, %1 : tensor<3x5xf32>, tensor<3x2x6xf32>
}
