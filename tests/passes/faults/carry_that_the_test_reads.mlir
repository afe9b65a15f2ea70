// argument: [1, 2]
// argument: [3, 1]
// answer: [0.25, 0.5]
// answer: [0.5, 1]
func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %h = stablehlo.constant dense<0.5> : tensor<2xf32>
  %r:2 = stablehlo.while(%a = %x, %b = %y) : tensor<2xf32>, tensor<2xf32>
  cond {
    %s = stablehlo.reduce(%b init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    %p = stablehlo.compare GT, %s, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %m = stablehlo.multiply %a, %h : tensor<2xf32>
    %q = "stablehlo.sort"(%m) ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %l = stablehlo.compare LT, %u, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) {dimension = 0 : i64, is_stable = true} : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %q, %a : tensor<2xf32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<2xf32>, tensor<2xf32>
}
