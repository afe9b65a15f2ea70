// answer: 0
func.func @f() -> tensor<i32> {
  %low = stablehlo.constant dense<0.0> : tensor<bf16>
  %high = stablehlo.constant dense<1.0> : tensor<bf16>
  %shape = stablehlo.constant dense<10000> : tensor<1xi64>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %x = stablehlo.rng %low, %high, %shape, distribution = UNIFORM : (tensor<bf16>, tensor<bf16>, tensor<1xi64>) -> tensor<10000xbf16>
  %w = stablehlo.convert %x : (tensor<10000xbf16>) -> tensor<10000xf32>
  %b = stablehlo.optimization_barrier %w : tensor<10000xf32>
  %top = stablehlo.constant dense<1.0> : tensor<10000xf32>
  %p = stablehlo.compare GE, %b, %top : (tensor<10000xf32>, tensor<10000xf32>) -> tensor<10000xi1>
  %n = stablehlo.convert %p : (tensor<10000xi1>) -> tensor<10000xi32>
  %0 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<10000xi32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
