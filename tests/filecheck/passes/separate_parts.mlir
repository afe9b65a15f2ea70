// RUN: nabla-opt %s --nabla-separate-parts | filecheck %s

// What is sorted is a part of an array: it is in memory before, or the sort would have all of it on the stack.
// CHECK-LABEL: func.func @sorted_part
// CHECK: %[[PART:.*]] = stablehlo.slice
// CHECK-NEXT: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[PART]]
// CHECK-NEXT: "stablehlo.sort"(%[[STORED]])
func.func @sorted_part(%x: tensor<9xf32>) -> tensor<8xf32> {
  %0 = stablehlo.slice %x [0:8] : (tensor<9xf32>) -> tensor<8xf32>
  %1 = "stablehlo.sort"(%0) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Elements that do not lie side by side are brought together before they are reversed.
// CHECK-LABEL: func.func @reversed_column
// CHECK: stablehlo.slice
// CHECK-NEXT: iree_tensor_ext.compute_barrier.start
// CHECK-NEXT: stablehlo.reverse
func.func @reversed_column(%x: tensor<8x3xf32>) -> tensor<8x1xf32> {
  %0 = stablehlo.slice %x [0:8, 1:2] : (tensor<8x3xf32>) -> tensor<8x1xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<8x1xf32>
  return %1 : tensor<8x1xf32>
}

// What is gathered would all be on the stack; few elements may be.
// CHECK-LABEL: func.func @scatter_of_gathered
// CHECK: %[[ROWS:.*]] = "stablehlo.gather"
// CHECK-NEXT: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[ROWS]]
// CHECK-NEXT: "stablehlo.scatter"(%{{.*}}, %{{.*}}, %[[STORED]])
func.func @scatter_of_gathered(%x: tensor<8192xf64>, %i: tensor<8192x1xi32>) -> tensor<8192xf64> {
  %0 = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = false
  } : (tensor<8192xf64>, tensor<8192x1xi32>) -> tensor<8192xf64>
  %1 = "stablehlo.scatter"(%x, %i, %0) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = false
  } : (tensor<8192xf64>, tensor<8192x1xi32>, tensor<8192xf64>) -> tensor<8192xf64>
  return %1 : tensor<8192xf64>
}

// CHECK-LABEL: func.func @few
// CHECK-NOT: compute_barrier
func.func @few(%x: tensor<8xf64>, %i: tensor<8x1xi32>) -> tensor<8xf64> {
  %0 = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = false
  } : (tensor<8xf64>, tensor<8x1xi32>) -> tensor<8xf64>
  %1 = "stablehlo.scatter"(%x, %i, %0) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = false, unique_indices = false
  } : (tensor<8xf64>, tensor<8x1xi32>, tensor<8xf64>) -> tensor<8xf64>
  return %1 : tensor<8xf64>
}
