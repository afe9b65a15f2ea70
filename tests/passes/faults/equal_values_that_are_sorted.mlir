// argument: [[3, 1, 2], [9, 7, 0.5]]
// answer: [[2, 4, 6], [1, 14, 18]]
// answer: [1, 2, 4, 6, 14, 18]
func.func @f(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<6xf32>) {
  %y = stablehlo.add %x, %x : tensor<2x3xf32>
  %s1 = "stablehlo.sort"(%y) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %x6 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %y6 = stablehlo.add %x6, %x6 : tensor<6xf32>
  %s2 = "stablehlo.sort"(%y6) <{dimension = 0 : i64, is_stable = false}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<6xf32>) -> tensor<6xf32>
  %e = stablehlo.slice %s2 [5:6] : (tensor<6xf32>) -> tensor<1xf32>
  %e0 = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
  %k = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.compare GT, %e0, %k : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %n = stablehlo.negate %s2 : tensor<6xf32>
  %r = stablehlo.select %p, %s2, %n : tensor<i1>, tensor<6xf32>
  return %s1, %r : tensor<2x3xf32>, tensor<6xf32>
}
