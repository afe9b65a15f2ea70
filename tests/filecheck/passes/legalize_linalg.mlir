// RUN: nabla-opt %s --nabla-legalize-linalg=vector-bytes=64 | filecheck %s

// Large factorisations and triangular systems on a CPU are kernels; equal ones are written once, and stand in front.

// CHECK: hal.executable.source private @cholesky_lower_1x64_f32
// CHECK: hal.executable.source private @solve_lower_transposed_1x64x1_f32
// CHECK: hal.executable.source private @cholesky_upper_3x64_f32
// CHECK-NOT: hal.executable.source
// A small system is a product with the inverse of its matrix.
// CHECK-LABEL: func.func @triangle
// CHECK-NOT: stablehlo.triangular_solve
// CHECK: stablehlo.dot_general
// CHECK: return
func.func @triangle(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %x = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  return %x : tensor<2x1xf32>
}

// CHECK-LABEL: func.func @system
// CHECK: [[L:%.+]]:3 = flow.dispatch @cholesky_lower_1x64_f32::@cholesky_lower_1x64_f32
// CHECK-NOT: stablehlo.while
// CHECK-NOT: stablehlo.pad
// CHECK: flow.dispatch @solve_lower_transposed_1x64x1_f32::@solve_lower_transposed_1x64x1_f32
// CHECK-NOT: stablehlo.slice
// CHECK: return
func.func @system(%a: tensor<64x64xf32>, %b: tensor<64x1xf32>) -> tensor<64x1xf32> {
  %l = stablehlo.cholesky %a, lower = true : tensor<64x64xf32>
  %x = "stablehlo.triangular_solve"(%l, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<64x64xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  return %x : tensor<64x1xf32>
}

// The other triangle is another kernel, several matrices are several workgroups.
// CHECK-LABEL: func.func @stack
// CHECK: flow.dispatch @cholesky_upper_3x64_f32::@cholesky_upper_3x64_f32
func.func @stack(%a: tensor<3x50x50xf32>) -> tensor<3x50x50xf32> {
  %u = stablehlo.cholesky %a : tensor<3x50x50xf32>
  return %u : tensor<3x50x50xf32>
}

// Small and complex ones stay loops and products.
// CHECK-LABEL: func.func @small
// CHECK-NOT: flow.dispatch
// CHECK: stablehlo.while
func.func @small(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %l = stablehlo.cholesky %a, lower = true : tensor<8x8xf32>
  return %l : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @complex
// CHECK-NOT: flow.dispatch
// CHECK: return
func.func @complex(%a: tensor<40x40xcomplex<f32>>) -> tensor<40x40xcomplex<f32>> {
  %l = stablehlo.cholesky %a, lower = true : tensor<40x40xcomplex<f32>>
  return %l : tensor<40x40xcomplex<f32>>
}
