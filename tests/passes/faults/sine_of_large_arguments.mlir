// argument: [1e10, 12345678]
// answer: [-0.487506025, -0.903541146]
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
