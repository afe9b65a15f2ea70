// argument: np.arange(300 * 60)[::-1].reshape(300, 60)
// answer: np.sort(np.arange(300 * 60)[::-1].reshape(300, 60)[3:])
func.func @f(%x: tensor<300x60xf64>) -> tensor<297x60xf64> {
  %0 = stablehlo.slice %x [3:300, 0:60] : (tensor<300x60xf64>) -> tensor<297x60xf64>
  %1 = "stablehlo.sort"(%0) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<297x60xf64>) -> tensor<297x60xf64>
  return %1 : tensor<297x60xf64>
}
