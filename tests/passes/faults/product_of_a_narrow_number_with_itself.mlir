// argument: 1.5
// answer: np.array([2.25])
func.func @f(%x: tensor<bf16>) -> tensor<1xf32> {
  %y = stablehlo.negate %x : tensor<bf16>
  %z = stablehlo.reshape %y : (tensor<bf16>) -> tensor<1x1xbf16>
  %0 = stablehlo.dot_general %z, %z, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<1x1xbf16>, tensor<1x1xbf16>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
