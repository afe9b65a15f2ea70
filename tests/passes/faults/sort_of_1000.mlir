// argument: np.arange(1000)
// answer: -np.arange(1000)[::-1]
func.func @f(%x: tensor<1000xf32>) -> tensor<1000xf32> {
  %y = stablehlo.negate %x : tensor<1000xf32>
  %0 = "stablehlo.sort"(%y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64, is_stable = false} : (tensor<1000xf32>) -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}
