// RUN: nabla-opt %s --nabla-gpu-sums-as-kernels='target=cuda triton=90' | filecheck %s

// 64 results: each is divided into parts, which a second kernel adds.
// CHECK: hal.executable.source private @[[SUM:sum_64x8192_f32_[0-9a-f]+]]
// CHECK-LABEL: func.func @channels
// CHECK: %[[PARTS:.*]] = flow.dispatch @[[SUM]]::@[[SUM]](%arg0) : (tensor<8x1024x64xf32>) -> tensor<64x128xf32>
// CHECK: flow.dispatch @{{sum_64x128_f32_.*}}(%[[PARTS]]) : (tensor<64x128xf32>) -> tensor<64xf32>
func.func @channels(%x: tensor<8x1024x64xf32>) -> tensor<64xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x1024x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Many rows of neighbours are IREE's: it adds them with what makes and reads them.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: flow.dispatch
func.func @rows(%x: tensor<16384x128xf32>) -> tensor<16384xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x128xf32>, tensor<f32>) -> tensor<16384xf32>
  return %0 : tensor<16384xf32>
}
