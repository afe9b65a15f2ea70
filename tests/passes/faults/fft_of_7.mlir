// argument: [(0.1+0.9j), (-0.1-0.7j), (0.6-1.3j), (0.1-0.6j), (-0.5+0j), (0.4-2.3j), (1.3-0.2j)]
// answer: [(1.9-4.2j), (1.3097363+2.31976411j), (-1.76963872+5.8904376j), (-1.85239457-0.221331961j), (1.31506563-0.579025529j), (-0.865141104+2.04888817j), (0.662372448+1.04126761j)]
func.func @f(%x: tensor<7xcomplex<f32>>) -> tensor<7xcomplex<f32>> {
  %0 = stablehlo.fft %x, type = FFT, length = [7] : (tensor<7xcomplex<f32>>) -> tensor<7xcomplex<f32>>
  return %0 : tensor<7xcomplex<f32>>
}
