// argument: 1.00097656
// answer: 2102
func.func @f(%y: tensor<f16>) -> tensor<f16> {
  %x = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f16>) -> tensor<2100xf16>
  %z = stablehlo.constant dense<0.0> : tensor<f16>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2100xf16>, tensor<f16>) -> tensor<f16>
  return %0 : tensor<f16>
}
