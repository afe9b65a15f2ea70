// answer: 17
func.func @f() -> tensor<bf16> {
  %x = stablehlo.constant dense<1.0> : tensor<17xbf16>
  %wide = stablehlo.convert %x : (tensor<17xbf16>) -> tensor<17xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%wide init: %z) applies stablehlo.add across dimensions = [0] : (tensor<17xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.convert %0 : (tensor<f32>) -> tensor<bf16>
  return %1 : tensor<bf16>
}
