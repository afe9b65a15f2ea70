// argument: [(1.5-1.3j), (2+0.4j), (1.8+0.4j), (1.3+0.7j), (0.4-1.2j), (-1.2-0.7j), (-0-0.4j), (0.7-1.2j)]
// answer: [(0.8125-0.4125j), (0.00214466094+0.477665043j), (-0.0125-0.4625j), (-0.257474747+0.169086399j), (0.1125-0.2125j), (0.0728553391-0.0526650429j), (0.0375-0.1625j), (0.732474747-0.644086399j)]
func.func @f(%x: tensor<8xcomplex<f64>>) -> tensor<8xcomplex<f64>> {
  %0 = stablehlo.fft %x, type = IFFT, length = [8] : (tensor<8xcomplex<f64>>) -> tensor<8xcomplex<f64>>
  return %0 : tensor<8xcomplex<f64>>
}
