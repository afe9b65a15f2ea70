// RUN: nabla-opt %s --nabla-legalize-reductions | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-legalize-reductions=target=vulkan | filecheck %s --check-prefixes=CHECK,VULKAN

// A sum over rows and columns of a product with one factor for each column: a CPU sums over the rows first.
// CHECK-LABEL: func.func @weighted
// CPU: %[[ROWS:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<5x7xf32>
// CPU: stablehlo.reduce(%[[ROWS]] {{.*}} across dimensions = [0] : (tensor<7xf32>
// VULKAN: stablehlo.reduce({{.*}} across dimensions = [0, 1]
// CHECK: return
func.func @weighted(%a: tensor<7xf32>, %b: tensor<5x7xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<7xf32>) -> tensor<5x7xf32>
  %1 = stablehlo.multiply %0, %b : tensor<5x7xf32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// A long sum is taken in two levels on a CPU, which else adds one term after the other.
// CHECK-LABEL: func.func @long_sum
// CPU: stablehlo.reshape {{.*}} -> tensor<1250x800xf32>
// CPU: stablehlo.reduce{{.*}} dimensions = [1]
// CPU: stablehlo.reduce{{.*}} dimensions = [0]
// VULKAN-NOT: stablehlo.reshape
// CHECK: return
func.func @long_sum(%x: tensor<1000000xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1000000xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// A complex sum is that of its parts beside a loop, where IREE may not compile it, and stays one elsewhere.
// CHECK-LABEL: func.func @complex_sum
// CHECK: stablehlo.reduce({{.*}}xcomplex<f32>
// CHECK-LABEL: func.func @complex_sum_beside_a_loop
// CHECK-COUNT-2: stablehlo.reduce({{.*}} -> tensor<f32>
// CHECK: stablehlo.complex
func.func @complex_sum(%x: tensor<5xcomplex<f32>>, %z: tensor<complex<f32>>) -> tensor<complex<f32>> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<5xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}
func.func @complex_sum_beside_a_loop(%x: tensor<5xcomplex<f32>>, %z: tensor<complex<f32>>, %b: tensor<i1>) -> tensor<complex<f32>> {
  %1 = stablehlo.while(%i = %x) : tensor<5xcomplex<f32>>
    cond { stablehlo.return %b : tensor<i1> }
    do { stablehlo.return %i : tensor<5xcomplex<f32>> }
  %0 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<5xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}

// Windows side by side are a reduction; sums that see one element each repeat it.
// CHECK-LABEL: func.func @pooled
// CHECK: stablehlo.reshape {{.*}} -> tensor<2x2x3x5xf32>
// CHECK: stablehlo.reduce{{.*}} stablehlo.maximum across dimensions = [1]
// CHECK: stablehlo.broadcast_in_dim {{.*}} dims = [0, 2, 3] : (tensor<2x3x5xf32>) -> tensor<2x2x3x5xf32>
// CHECK: stablehlo.reshape {{.*}} -> tensor<4x3x5xf32>
// CHECK-NOT: reduce_window
// CHECK: return
func.func @pooled(%x: tensor<4x3x5xf32>) -> tensor<4x3x5xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %low) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {window_dimensions = array<i64: 2, 1, 1>, window_strides = array<i64: 2, 1, 1>} : (tensor<4x3x5xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {window_dimensions = array<i64: 2, 1, 1>, base_dilations = array<i64: 2, 1, 1>,
      padding = dense<[[1, 1], [0, 0], [0, 0]]> : tensor<3x2xi64>} : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<4x3x5xf32>
  return %1 : tensor<4x3x5xf32>
}
