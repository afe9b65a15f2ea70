// argument: [[1, 2j], [3, 4]]
// answer: [[1, 2j], [3, 4]]
func.func @f(%x: tensor<2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>> {
  %0 = stablehlo.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf64>
  %1 = stablehlo.convert %0 : (tensor<2x2xf64>) -> tensor<2x2xcomplex<f64>>
  %2 = stablehlo.dot_general %1, %x, contracting_dims = [1] x [0] : (tensor<2x2xcomplex<f64>>, tensor<2x2xcomplex<f64>>) -> tensor<2x2xcomplex<f64>>
  return %2 : tensor<2x2xcomplex<f64>>
}
