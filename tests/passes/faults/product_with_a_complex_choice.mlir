// argument: [[1, 2j], [3, 4]]
// answer: [[1, 2j], [3, 4]]
func.func @f(%x: tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>> {
  %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<2x2xcomplex<f32>>
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<2x2xcomplex<f32>>
  %0 = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<2xi32>) -> tensor<2x2xi32>
  %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xi32>) -> tensor<2x2xi32>
  %3 = stablehlo.compare EQ, %1, %2 : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %4 = stablehlo.select %3, %one, %zero : tensor<2x2xi1>, tensor<2x2xcomplex<f32>>
  %5 = stablehlo.dot_general %4, %x, contracting_dims = [1] x [0] : (tensor<2x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  return %5 : tensor<2x2xcomplex<f32>>
}
