// RUN: nabla-opt %s --nabla-sums-as-kernels='least-size=1024 vector-bytes=32' | filecheck %s

// Two sums over columns read the matrix once, and compute the square where it is added; each workgroup has its own.
// CHECK: hal.executable.source private @reductions_0
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: hal.executable.source private @reductions_1
// CHECK: arith.maximumf
// CHECK-LABEL: func.func @columns
// CHECK: %[[SUMS:.*]]:2 = flow.dispatch @reductions_0::@reductions_0(%arg0) : (tensor<64x32xf32>) -> (tensor<1x32xf32>, tensor<1x32xf32>)
// CHECK-NOT: stablehlo.multiply
// CHECK: return
func.func @columns(%x: tensor<64x32xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %x : tensor<64x32xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  return %1, %2 : tensor<32xf32>, tensor<32xf32>
}

// Equal kernels are one.
// CHECK-LABEL: func.func @largest
// CHECK: flow.dispatch @reductions_1::@reductions_1
// CHECK: flow.dispatch @reductions_1::@reductions_1
func.func @largest(%x: tensor<64x32xf32>, %w: tensor<32xf32>) -> tensor<32xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<32xf32>) -> tensor<64x32xf32>
  %2 = stablehlo.custom_call @opaque(%1) : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  return %3 : tensor<32xf32>
}

// Rows, few terms, another start and integers are left to IREE.
// CHECK-LABEL: func.func @left
// CHECK-NOT: flow.dispatch
// CHECK: return
func.func @left(%x: tensor<64x32xf32>, %y: tensor<4x512xf32>, %n: tensor<64x32xi32>) -> (tensor<64xf32>, tensor<512xf32>, tensor<32xf32>, tensor<32xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x512xf32>, tensor<f32>) -> tensor<512xf32>
  %2 = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  %3 = stablehlo.reduce(%n init: %none) applies stablehlo.add across dimensions = [0] : (tensor<64x32xi32>, tensor<i32>) -> tensor<32xi32>
  return %0, %1, %2, %3 : tensor<64xf32>, tensor<512xf32>, tensor<32xf32>, tensor<32xi32>
}
