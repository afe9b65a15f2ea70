// argument: [(0+1j), (2+0j), (-1+0j)]
// answer: [(2+1j), (2+1j), (0+1j), (2+0j), (-1+0j), (2+1j), (2+1j), (2+1j)]
func.func @f(%x: tensor<3xcomplex<f32>>) -> tensor<8xcomplex<f32>> {
  %z = stablehlo.constant dense<(2.0, 1.0)> : tensor<complex<f32>>
  %0 = stablehlo.pad %x, %z, low = [2], high = [3], interior = [0] : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8xcomplex<f32>>
  return %0 : tensor<8xcomplex<f32>>
}
