// argument: [1, 2]
// answer: [3, 4]
func.func @f(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %0 = stablehlo.constant dense<[(3.0, 0.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.multiply %0, %x : tensor<2xcomplex<f32>>
  return %1 : tensor<2xcomplex<f32>>
}
