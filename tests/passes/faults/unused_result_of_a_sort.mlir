// argument: np.arange(700 * 300)[::-1].reshape(700, 300)
// answer: np.argsort(np.arange(700 * 300)[::-1].reshape(700, 300), axis=1)
func.func @f(%x: tensor<700x300xf32>) -> tensor<700x300xi32> {
  %y = stablehlo.add %x, %x : tensor<700x300xf32>
  %i = stablehlo.iota dim = 1 : tensor<700x300xi32>
  %0:2 = "stablehlo.sort"(%y, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64, is_stable = false}
      : (tensor<700x300xf32>, tensor<700x300xi32>) -> (tensor<700x300xf32>, tensor<700x300xi32>)
  return %0#1 : tensor<700x300xi32>
}
