// RUN: nabla-opt %s --nabla-legalize-for-iree | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-legalize-for-iree=target=vulkan | filecheck %s --check-prefixes=CHECK,VULKAN

// A cube is two products: IREE would compute exp(3 log x), which is NaN for a negative x.
// CHECK-LABEL: func.func @cube
// CHECK-SAME: (%[[X:.*]]: tensor<4xf64>)
// CHECK-NOT: stablehlo.power
// CHECK: %[[SQUARE:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK: stablehlo.multiply %[[SQUARE]], %[[X]]
// CHECK-NEXT: return
func.func @cube(%x: tensor<4xf64>) -> tensor<4xf64> {
  %n = stablehlo.constant dense<3.0> : tensor<4xf64>
  %r = stablehlo.power %x, %n : tensor<4xf64>
  return %r : tensor<4xf64>
}

// IREE adds i1 modulo 2; StableHLO defines it as or.
// CHECK-LABEL: func.func @add_of_truth_values
// CHECK-NEXT: stablehlo.or
// CHECK-NEXT: return
func.func @add_of_truth_values(%p: tensor<3xi1>, %q: tensor<3xi1>) -> tensor<3xi1> {
  %0 = stablehlo.add %p, %q : tensor<3xi1>
  return %0 : tensor<3xi1>
}

// From float to integer the value is clamped first, and NaN becomes 0.
// CHECK-LABEL: func.func @saturating_conversion
// CHECK: stablehlo.minimum
// CHECK: stablehlo.maximum
// CHECK: stablehlo.convert {{.*}} : (tensor<3xf32>) -> tensor<3xi32>
// CHECK: stablehlo.compare NE
// CHECK: stablehlo.select
// CHECK: return
func.func @saturating_conversion(%x: tensor<3xf32>) -> tensor<3xi32> {
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// The f32 exponential of the CPU is good; that of Vulkan is 20 ulp off and is replaced.
// CHECK-LABEL: func.func @exponential
// CPU-NEXT: stablehlo.exponential
// VULKAN-NOT: stablehlo.exponential
// CHECK: return
func.func @exponential(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.exponential %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// The body of a reduction is legalised as well.
// CHECK-LABEL: func.func @in_a_body
// CHECK-NOT: stablehlo.add {{.*}}i1
// CHECK: return
func.func @in_a_body(%p: tensor<3xi1>) -> tensor<i1> {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.reduce(%p init: %false) across dimensions = [0] : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
    reducer(%a: tensor<i1>, %b: tensor<i1>) {
      %1 = stablehlo.add %a, %b : tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }
  return %0 : tensor<i1>
}

// What IREE does right is left alone.
// CHECK-LABEL: func.func @right
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NEXT: stablehlo.multiply
// CHECK-NEXT: return
func.func @right(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// A vector times the columns of a matrix stands before it: the other order makes IREE transpose the matrix.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[U:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[U]], %[[A]], contracting_dims = [0] x [0]
// CHECK-NEXT: return %[[R]]
func.func @columns(%a: tensor<2x3xf32>, %u: tensor<2xf32>) -> tensor<3xf32> {
  %0 = stablehlo.dot_general %a, %u, contracting_dims = [0] x [0] : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[U:.*]]: tensor<3xf32>, %[[A:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[A]], %[[U]], contracting_dims = [1] x [0]
// CHECK-NEXT: return %[[R]]
func.func @rows(%u: tensor<3xf32>, %a: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = stablehlo.dot_general %u, %a, contracting_dims = [0] x [1] : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
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

// The kernel of a convolution is turned round beforehand for a GPU, whose tiles cannot be.
// CHECK-LABEL: func.func @turned
// CPU: stablehlo.convolution{{.*}}reverse = [true]
// VULKAN: stablehlo.reverse %arg1, dims = [2]
// VULKAN: stablehlo.convolution{{.*}}reverse = [false]
func.func @turned(%x: tensor<1x2x4xf32>, %k: tensor<3x2x3xf32>) -> tensor<1x3x2xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4xf32>, tensor<3x2x3xf32>) -> tensor<1x3x2xf32>
  return %y : tensor<1x3x2xf32>
}

// A sum that is broadcast along two dimensions is computed before what reads it; the second one is fused.
// CHECK-LABEL: func.func @both_ways
// CHECK: %[[S:.*]] = stablehlo.reduce
// CHECK-NEXT: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[S]]
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[STORED]], dims = [0]
// CHECK-NEXT: stablehlo.negate %[[STORED]]
// CHECK: stablehlo.reduce
// CHECK-NOT: iree_tensor_ext.compute_barrier.start
// CHECK: return
func.func @both_ways(%x: tensor<8x8xf32>, %z: tensor<f32>) -> tensor<8x8xf32> {
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %0 = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %n = stablehlo.negate %s : tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %n, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %m = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %3 = stablehlo.add %0, %1 : tensor<8x8xf32>
  %4 = stablehlo.add %3, %2 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
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

// The host has no arithmetic of unsigned types: a scalar becomes unsigned by its bits.
// CHECK-LABEL: func.func @unsigned_counter
// CHECK: %[[WIDE:.*]] = stablehlo.convert %{{.*}} : (tensor<i32>) -> tensor<i64>
// CHECK-NEXT: stablehlo.bitcast_convert %[[WIDE]] : (tensor<i64>) -> tensor<ui64>
func.func @unsigned_counter(%i: tensor<i32>) -> tensor<ui64> {
  %0 = stablehlo.convert %i : (tensor<i32>) -> tensor<ui64>
  return %0 : tensor<ui64>
}

// For Vulkan a reversed tensor is made on its own, and truth values are chosen between, not converted.
// CHECK-LABEL: func.func @reversed_truth
// VULKAN: %[[TURNED:.*]] = stablehlo.reverse
// VULKAN-NEXT: iree_tensor_ext.compute_barrier.start %[[TURNED]]
// VULKAN: stablehlo.select
// CPU: stablehlo.select
func.func @reversed_truth(%x: tensor<3xi1>) -> tensor<3xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<3xi1>
  %1 = stablehlo.convert %0 : (tensor<3xi1>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// The padding of a complex convolution is taken out of it, and done for both parts.
// CHECK-LABEL: func.func @complex_convolution
// CHECK-COUNT-2: stablehlo.pad {{.*}} low = [0, 1, 0], high = [0, 1, 0]
// CHECK: stablehlo.convolution
// CHECK-NOT: pad =
// CHECK: return
func.func @complex_convolution(%x: tensor<1x6x1xcomplex<f32>>, %k: tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
       : (tensor<1x6x1xcomplex<f32>>, tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>>
  return %0 : tensor<1x6x1xcomplex<f32>>
}
