// answer: [3 + 1j, 3 + 1j]
func.func @f() -> tensor<2xcomplex<f64>> {
  %c = stablehlo.constant dense<(3.0, 1.0)> : tensor<2xcomplex<f64>>
  return %c : tensor<2xcomplex<f64>>
}
