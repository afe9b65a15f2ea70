// RUN: nabla-opt %s --nabla-legalize-convolutions | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-legalize-convolutions=target=vulkan | filecheck %s --check-prefixes=CHECK,VULKAN

// The kernel of a convolution is turned round beforehand for a GPU, whose tiles cannot be.
// CHECK-LABEL: func.func @turned
// CPU: stablehlo.convolution{{.*}}reverse = [true]
// VULKAN: stablehlo.reverse %arg1, dims = [2]
// VULKAN: stablehlo.convolution{{.*}}reverse = [false]
func.func @turned(%x: tensor<1x2x4xf32>, %k: tensor<3x2x3xf32>) -> tensor<1x3x2xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4xf32>, tensor<3x2x3xf32>) -> tensor<1x3x2xf32>
  return %y : tensor<1x3x2xf32>
}

// The padding of complex numbers is taken out of the convolution.
// CHECK-LABEL: func.func @padded
// CHECK: stablehlo.pad {{.*}} low = [0, 1, 0], high = [0, 1, 0]
// CHECK: stablehlo.convolution
// CHECK-NOT: pad =
// CHECK: return
func.func @padded(%x: tensor<1x6x1xcomplex<f32>>, %k: tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
       : (tensor<1x6x1xcomplex<f32>>, tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>>
  return %0 : tensor<1x6x1xcomplex<f32>>
}
