// argument: np.arange(40)[::-1]
// answer: np.arange(40)
func.func @f(%x: tensor<40xf32>) -> tensor<40xf32> {
  %i = stablehlo.iota dim = 0 : tensor<40xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %e = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %q = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.and %e, %q : tensor<i1>
    %s = stablehlo.or %p, %r : tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<40xf32>, tensor<40xi32>) -> (tensor<40xf32>, tensor<40xi32>)
  return %0#0 : tensor<40xf32>
}
