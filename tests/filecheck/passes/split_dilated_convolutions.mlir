// RUN: nabla-opt %s --nabla-split-dilated-convolutions="vector-bytes=32" | filecheck %s

// The gradient of a 3x3 convolution with a stride of two, with regard to its image: four convolutions of 1, 2, 2 and 4
// elements of the kernel, and no zero between the elements of the image.
// CHECK-LABEL: func.func @image_of_a_strided_one
// CHECK-NOT: lhs_dilate = [2
// CHECK-COUNT-4: stablehlo.convolution
// CHECK-NOT: stablehlo.convolution
func.func @image_of_a_strided_one(%x: tensor<32x16x16x64xf32>, %k: tensor<3x3x32x64xf32>) -> tensor<32x32x32x32xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f],
    window = {pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], reverse = [true, true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x16x16x64xf32>, tensor<3x3x32x64xf32>) -> tensor<32x32x32x32xf32>
  return %0 : tensor<32x32x32x32xf32>
}

// Three quarters of the positions see zeros alone: those of each second row are one constant.
// CHECK-LABEL: func.func @one_by_one
// CHECK-COUNT-1: stablehlo.convolution
// CHECK-NOT: stablehlo.convolution
// CHECK: stablehlo.concatenate
// CHECK: stablehlo.constant dense<0.000000e+00> : tensor<32x16x32x64xf32>
// CHECK: stablehlo.concatenate
// CHECK-NOT: stablehlo.concatenate
// CHECK: return
func.func @one_by_one(%x: tensor<32x16x16x64xf32>, %k: tensor<1x1x64x64xf32>) -> tensor<32x32x32x64xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f],
    window = {pad = [[0, 1], [0, 1]], lhs_dilate = [2, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<32x16x16x64xf32>, tensor<1x1x64x64xf32>) -> tensor<32x32x32x64xf32>
  return %0 : tensor<32x32x32x64xf32>
}

// What would be left is too small to be packed.
// CHECK-LABEL: func.func @small
// CHECK: lhs_dilate = [2
func.func @small(%x: tensor<2x8x8x64xf32>, %k: tensor<3x3x32x64xf32>) -> tensor<2x16x16x32xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f],
    window = {pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], reverse = [true, true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x64xf32>, tensor<3x3x32x64xf32>) -> tensor<2x16x16x32xf32>
  return %0 : tensor<2x16x16x32xf32>
}
