// RUN: nabla-opt %s --nabla-gpu-scatters-as-kernels='target=cuda triton=90' | filecheck %s

// Sums of floats are sums of integers, whose order does not matter: first the largest update of each element, then the sum.
// CHECK-DAG: hal.executable.source private @[[LARGEST:row_sums_largest_50x64x300_i32_i32]]
// CHECK-DAG: hal.executable.source private @[[FIXED:row_sums_fixed_50x64x300_i32_i64]]
// CHECK-LABEL: func.func @embedding
// CHECK: %[[M:.*]] = flow.dispatch @[[LARGEST]]::@[[LARGEST]]
// CHECK: flow.dispatch @[[FIXED]]::@[[FIXED]](%{{.*}}, %{{.*}}, %[[M]],
// CHECK-NOT: stablehlo.scatter
func.func @embedding(%i: tensor<300x1xi32>, %u: tensor<300x64xf32>) -> tensor<50x64xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<50x64xf32>
  %0 = "stablehlo.scatter"(%z, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
    : (tensor<50x64xf32>, tensor<300x1xi32>, tensor<300x64xf32>) -> tensor<50x64xf32>
  return %0 : tensor<50x64xf32>
}

// Counts are added at once.
// CHECK-LABEL: func.func @counts
// CHECK: flow.dispatch @row_sums_integers_50x1x300_i32_i32
func.func @counts(%i: tensor<300x1xi32>, %u: tensor<300xi32>) -> tensor<50xi32> {
  %z = stablehlo.constant dense<0> : tensor<50xi32>
  %0 = "stablehlo.scatter"(%z, %i, %u) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
    : (tensor<50xi32>, tensor<300x1xi32>, tensor<300xi32>) -> tensor<50xi32>
  return %0 : tensor<50xi32>
}

// Few rows onto a large array stay: the kernels would read and write all of it.
// CHECK-LABEL: func.func @few
// CHECK: stablehlo.scatter
func.func @few(%x: tensor<50000x64xf32>, %i: tensor<300x1xi32>, %u: tensor<300x64xf32>) -> tensor<50000x64xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
    : (tensor<50000x64xf32>, tensor<300x1xi32>, tensor<300x64xf32>) -> tensor<50000x64xf32>
  return %0 : tensor<50000x64xf32>
}
