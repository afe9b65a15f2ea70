// argument: [False, False, True, False, False, False]
// answer: [False, False, True, True, True, True]
func.func @f(%x: tensor<6xi1>) -> tensor<6xi1> {
  %z = stablehlo.constant dense<false> : tensor<i1>
  %0 = "stablehlo.reduce_window"(%x, %z) ({
  ^bb0(%a: tensor<i1>, %b: tensor<i1>):
    %c = stablehlo.or %a, %b : tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) {window_dimensions = array<i64: 6>, padding = dense<[[5, 0]]> : tensor<1x2xi64>}
      : (tensor<6xi1>, tensor<i1>) -> tensor<6xi1>
  return %0 : tensor<6xi1>
}
