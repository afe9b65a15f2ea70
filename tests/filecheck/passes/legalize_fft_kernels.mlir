// RUN: nabla-opt %s "--nabla-legalize-fft=vector-bytes=64" | filecheck %s

// Two axes are two kernels: rows to memory of their own, then columns where these lie.
// CHECK-DAG: hal.executable.source private @[[ROWS:fft_64_1_32_.*_f32]]
// CHECK-DAG: hal.executable.source private @[[COLUMNS:fft_32_1_64_.*_1_f32]]
// CHECK-LABEL: func.func @plane
// CHECK: %[[FIRST:.*]]:2 = flow.dispatch @[[ROWS]]::@[[ROWS]](%arg0,
// CHECK: flow.dispatch @[[COLUMNS]]::@[[COLUMNS]]({{.*}}, %[[FIRST]]#0) : ({{.*}}) -> (%[[FIRST]]#0,
// CHECK-NOT: stablehlo.dot_general
func.func @plane(%x: tensor<32x64xcomplex<f32>>) -> tensor<32x64xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = FFT, length = [32, 64] : (tensor<32x64xcomplex<f32>>) -> tensor<32x64xcomplex<f32>>
  return %0 : tensor<32x64xcomplex<f32>>
}

// Half a spectrum of pairs of real numbers is read as it lies.
// CHECK-LABEL: func.func @real
// CHECK: flow.dispatch @rfft_{{.*}}(%arg0, {{.*}}) : (tensor<64x128xf32>, {{.*}} -> (tensor<64x65xcomplex<f32>>
func.func @real(%x: tensor<64x128xf32>) -> tensor<64x65xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [128] : (tensor<64x128xf32>) -> tensor<64x65xcomplex<f32>>
  return %0 : tensor<64x65xcomplex<f32>>
}
