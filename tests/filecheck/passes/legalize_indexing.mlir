// RUN: nabla-opt %s --nabla-legalize-indexing | filecheck %s

// Indices are kept within the array; IREE would read behind it.
// CHECK-LABEL: func.func @rows
// CHECK: %[[LOW:.*]] = stablehlo.maximum %arg1
// CHECK: %[[BOTH:.*]] = stablehlo.minimum %[[LOW]]
// CHECK: "stablehlo.gather"(%arg0, %[[BOTH]])
func.func @rows(%x: tensor<4x2xf32>, %i: tensor<3x1xi32>) -> tensor<3x2xf32> {
  %0 = "stablehlo.gather"(%x, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// Those that cannot leave it are left alone.
// CHECK-LABEL: func.func @inside
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: "stablehlo.gather"
func.func @inside(%x: tensor<4x2xf32>) -> tensor<3x2xf32> {
  %i = stablehlo.constant dense<[[0], [3], [1]]> : tensor<3x1xi32>
  %0 = "stablehlo.gather"(%x, %i) {slice_sizes = array<i64: 1, 2>, dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// A single update is a slice that is written: its start is kept within the array, and a window outside is dropped.
// CHECK-LABEL: func.func @one_update
// CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0
// CHECK: %[[NEW:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[OLD]]
// CHECK: stablehlo.dynamic_update_slice %arg0, %[[NEW]]
// CHECK-NOT: stablehlo.scatter
// CHECK: return
func.func @one_update(%x: tensor<4xf32>, %i: tensor<1xi32>, %u: tensor<f32>) -> tensor<4xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}
    : (tensor<4xf32>, tensor<1xi32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
