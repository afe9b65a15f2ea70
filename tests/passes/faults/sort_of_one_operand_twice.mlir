// argument: np.arange(64 * 30)[::-1].reshape(64, 30)
// answer: np.argsort(np.arange(64 * 30)[::-1].reshape(64, 30))
// answer: np.argsort(np.arange(64 * 30)[::-1].reshape(64, 30))
func.func @f(%x: tensor<64x30xf32>) -> (tensor<64x30xi32>, tensor<64x30xi32>) {
  %y = stablehlo.add %x, %x : tensor<64x30xf32>
  %i = stablehlo.iota dim = 1 : tensor<64x30xi32>
  %0:3 = "stablehlo.sort"(%y, %i, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>, %e: tensor<i32>, %g: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64, is_stable = false}
      : (tensor<64x30xf32>, tensor<64x30xi32>, tensor<64x30xi32>) -> (tensor<64x30xf32>, tensor<64x30xi32>, tensor<64x30xi32>)
  return %0#1, %0#2 : tensor<64x30xi32>, tensor<64x30xi32>
}
