// RUN: nabla-opt %s --nabla-count-loops | filecheck %s

// A loop that counts down counts up, and what needs its counter gets it from the new one.
// CHECK-LABEL: func.func @down
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A:.*]] = %arg0)
// CHECK: stablehlo.compare LT, %[[I]]
// CHECK: %[[OLD:.*]] = stablehlo.subtract %{{.*}}, %[[I]]
// CHECK: stablehlo.dynamic_slice %[[A]], %[[OLD]]
// CHECK: %[[NEXT:.*]] = stablehlo.add %[[I]],
// CHECK: stablehlo.return %[[NEXT]]
func.func @down(%x: tensor<4xf32>) -> tensor<4xf32> {
  %last = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %last, %a = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.compare GE, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %s = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %w = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
    %b = stablehlo.add %a, %w : tensor<4xf32>
    %j = stablehlo.subtract %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}

// How often a loop runs may be known to nobody: it stays.
// CHECK-LABEL: func.func @unknown
// CHECK: stablehlo.compare GE
// CHECK: stablehlo.subtract
// CHECK: return
func.func @unknown(%n: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.while(%i = %n) : tensor<i32>
  cond {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.compare GE, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.subtract %i, %one : tensor<i32>
    stablehlo.return %j : tensor<i32>
  }
  return %r : tensor<i32>
}
