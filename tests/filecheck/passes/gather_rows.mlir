// RUN: nabla-opt %s --nabla-gather-rows | filecheck %s

// Rows that one elementwise operation reads, or several: vectors of their elements are moved, where they are read.
// CHECK-LABEL: func.func @rows
// CHECK: %[[INDEX:.*]] = stablehlo.reshape %arg1 : (tensor<3x1xi32>) -> tensor<3xi32>
// CHECK: %[[ROWS:.*]] = iree_linalg_ext.gather dimension_map = [0] ins(%arg0, %[[INDEX]] : tensor<4x2xf32>, tensor<3xi32>)
// CHECK: stablehlo.multiply %[[ROWS]], %[[ROWS]]
func.func @rows(%x: tensor<4x2xf32>, %i: tensor<3x1xi32>) -> tensor<3x2xf32> {
  %0 = "stablehlo.gather"(%x, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// Where a sum reads them beside others, they are written before: its dispatch does not take them by rows.
// CHECK-LABEL: func.func @summed
// CHECK: %[[ROWS:.*]] = iree_linalg_ext.gather
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[ROWS]]
// CHECK: stablehlo.reduce(%[[STORED]]
// CHECK: stablehlo.negate %[[STORED]]
func.func @summed(%x: tensor<4x2xf32>, %i: tensor<3x1xi32>) -> (tensor<3xf32>, tensor<3x2xf32>) {
  %0 = "stablehlo.gather"(%x, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.negate %0 : tensor<3x2xf32>
  return %1, %2 : tensor<3xf32>, tensor<3x2xf32>
}

// Two that meet are read element by element, in one dispatch that writes neither; and so are columns.
// CHECK-LABEL: func.func @together
// CHECK-NOT: iree_linalg_ext
// CHECK: return
func.func @together(%x: tensor<4x2xf32>, %i: tensor<3x1xi32>, %j: tensor<3x1xi32>) -> (tensor<3x2xf32>, tensor<3x1xf32>) {
  %0 = "stablehlo.gather"(%x, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %1 = "stablehlo.gather"(%x, %j) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3x2xf32>
  %3 = stablehlo.subtract %i, %j : tensor<3x1xi32>
  %4 = "stablehlo.gather"(%x, %3) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %5 = stablehlo.slice %4 [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %6 = stablehlo.slice %4 [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %7 = stablehlo.add %5, %6 : tensor<3x1xf32>
  return %2, %7 : tensor<3x2xf32>, tensor<3x1xf32>
}
