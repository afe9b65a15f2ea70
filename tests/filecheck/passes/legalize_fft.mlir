// RUN: nabla-opt %s --nabla-legalize-fft | filecheck %s

// The real transform of three numbers is a product with the cosines and sines of thirds of a turn.
// CHECK-LABEL: func.func @three
// CHECK: stablehlo.dot_general
// CHECK-NOT: stablehlo.fft
// CHECK: stablehlo.complex
func.func @three(%x: tensor<3xf32>) -> tensor<2xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [3] : (tensor<3xf32>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}

// IREE does this one.
// CHECK-LABEL: func.func @eight
// CHECK-NEXT: stablehlo.fft
func.func @eight(%x: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = FFT, length = [8] : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  return %0 : tensor<8xcomplex<f32>>
}
