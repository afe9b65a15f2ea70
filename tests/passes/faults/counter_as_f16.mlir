// argument: 3
// argument: [1, 2]
// answer: [4, 5]
func.func @f(%n: tensor<i32>, %v: tensor<2xf16>) -> tensor<2xf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %x = %v) : tensor<i32>, tensor<2xf16>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %u = stablehlo.convert %i : (tensor<i32>) -> tensor<f16>
    %w = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f16>) -> tensor<2xf16>
    %y = stablehlo.add %x, %w : tensor<2xf16>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %y : tensor<i32>, tensor<2xf16>
  }
  return %r#1 : tensor<2xf16>
}
