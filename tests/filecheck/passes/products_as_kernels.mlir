// RUN: nabla-opt %s --nabla-products-as-kernels='triton=90' | filecheck %s

// The factors are read where they lie; the kernel's text is part of the module until it is compiled.
// CHECK: hal.executable.source private @[[PRODUCT:product_1x2048x512x512_f32_[0-9a-f]+]]
// CHECK-SAME: tt.dot
// CHECK-LABEL: func.func @product
// CHECK: flow.dispatch @[[PRODUCT]]::@[[PRODUCT]](%arg0, %arg1)
// CHECK-NOT: stablehlo.transpose
func.func @product(%a: tensor<2048x512xf32>, %b: tensor<512x512xf32>) -> tensor<2048x512xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<2048x512xf32>, tensor<512x512xf32>) -> tensor<2048x512xf32>
  return %0 : tensor<2048x512xf32>
}

// The inner indices of a product with few tiles are divided; the parts are added afterwards.
// CHECK-LABEL: func.func @long
// CHECK: %[[PARTS:.*]] = flow.dispatch {{.*}} -> tensor<32x64x64xf32>
// CHECK: stablehlo.reduce(%[[PARTS]]
func.func @long(%a: tensor<5000x64xf32>, %b: tensor<5000x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<5000x64xf32>, tensor<5000x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}

// A convolution is a product of the image's windows and the kernel; nothing is padded first.
// CHECK-LABEL: func.func @convolution
// CHECK-NOT: stablehlo.pad
// CHECK: flow.dispatch
// CHECK-NOT: stablehlo.convolution
func.func @convolution(%x: tensor<8x32x32x64xf32>, %w: tensor<3x3x64x64xf32>) -> tensor<8x32x32x64xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<8x32x32x64xf32>, tensor<3x3x64x64xf32>) -> tensor<8x32x32x64xf32>
  return %0 : tensor<8x32x32x64xf32>
}

// A product with a vector reads more than it computes, and f64 has no kernel.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: stablehlo.dot_general
func.func @others(%a: tensor<2000x500xf32>, %v: tensor<500xf32>, %b: tensor<500x500xf64>) -> (tensor<2000xf32>, tensor<500x500xf64>) {
  %0 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<2000x500xf32>, tensor<500xf32>) -> tensor<2000xf32>
  %1 = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0] : (tensor<500x500xf64>, tensor<500x500xf64>) -> tensor<500x500xf64>
  return %0, %1 : tensor<2000xf32>, tensor<500x500xf64>
}
