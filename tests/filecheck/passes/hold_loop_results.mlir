// RUN: nabla-opt %s --nabla-hold-loop-results | filecheck %s

// A loop that may take no step returns what it starts with: its results stand behind a barrier.
// CHECK-LABEL: func.func @perhaps
// CHECK: %[[R:.*]]:2 = stablehlo.while
// CHECK: %[[HELD:.*]] = stablehlo.optimization_barrier %[[R]]#1
// CHECK: return %[[HELD]]
func.func @perhaps(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.sine %a : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
