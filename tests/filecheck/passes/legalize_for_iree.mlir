// RUN: nabla-opt %s --nabla-legalize-for-iree | filecheck %s
// RUN: nabla-opt %s --nabla-legalize-for-iree=target=vulkan | filecheck %s

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
