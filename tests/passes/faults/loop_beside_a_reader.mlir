// argument: [2, -1, 0.5]
// answer: [-4, 0.5, 0.5]
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %b = stablehlo.negate %x : tensor<3xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %b) : tensor<i32>, tensor<3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %q = "stablehlo.sort"(%a) ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %l = stablehlo.compare LT, %u, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) {dimension = 0 : i64, is_stable = true} : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %j, %q : tensor<i32>, tensor<3xf32>
  }
  %s = stablehlo.add %r#1, %b : tensor<3xf32>
  return %s : tensor<3xf32>
}
