// argument: [0.5, -1, 448]
// answer: [0.5, -1, 448]
func.func @f(%x: tensor<3xf16>) -> tensor<3xf16> {
  %0 = stablehlo.convert %x : (tensor<3xf16>) -> tensor<3xf8E4M3FN>
  %1 = stablehlo.convert %0 : (tensor<3xf8E4M3FN>) -> tensor<3xf16>
  return %1 : tensor<3xf16>
}
