// RUN: nabla-opt %s --nabla-scatters-as-kernels | filecheck %s

// The gradient of an embedding: rows are added to zeros.
// CHECK: hal.executable.source private @[[KERNEL:scatter_zeros_50x64x300_i32_f32]]
// CHECK-LABEL: func.func @embedding
// CHECK: flow.dispatch @[[KERNEL]]::@[[KERNEL]](%{{.*}}, %{{.*}}) : (tensor<300x1xi32>, tensor<300x64xf32>) -> tensor<50x64xf32>
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

// Few rows onto what is there are an update in place.
// CHECK-LABEL: func.func @few
// CHECK: stablehlo.scatter
func.func @few(%x: tensor<5000x64xf32>, %i: tensor<300x1xi32>, %u: tensor<300x64xf32>) -> tensor<5000x64xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}
    : (tensor<5000x64xf32>, tensor<300x1xi32>, tensor<300x64xf32>) -> tensor<5000x64xf32>
  return %0 : tensor<5000x64xf32>
}
