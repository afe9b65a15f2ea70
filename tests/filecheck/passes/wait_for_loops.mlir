// RUN: nabla-opt %s --split-input-file --nabla-wait-for-loops | filecheck %s

// The sine is read by the loop, and beside what the loop returns: a barrier stands behind the loop.
// CHECK-LABEL: func.func @shared
// CHECK: %[[S:.*]] = stablehlo.sine
// CHECK: %[[R:.*]]:2 = stablehlo.while
// CHECK: %[[NUMBER:.*]] = arith.constant 0 : i32
// CHECK-NEXT: util.optimization_barrier %[[NUMBER]] : i32
// CHECK-NEXT: stablehlo.multiply %[[R]]#1, %[[S]]
func.func @shared(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.sine %x : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %c, %a = %s) : tensor<i32>, tensor<4xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.tanh %a : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
  }
  %y = stablehlo.multiply %r#1, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// What one of the operands is made of is read beside the branch, which captures another.
// CHECK-LABEL: func.func @before
// CHECK: stablehlo.if
// CHECK: util.optimization_barrier
func.func @before(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %s = stablehlo.sine %x : tensor<4xf32>
  %t = stablehlo.tanh %s : tensor<4xf32>
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %t : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %y = stablehlo.multiply %r, %s : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// An argument, a constant, and what the loop alone needs are no reason to wait.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: util.optimization_barrier
func.func @alone(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.sine %x : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %c, %a = %s) : tensor<i32>, tensor<4xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.multiply %a, %x : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
  }
  %y = stablehlo.multiply %r#1, %x : tensor<4xf32>
  return %y, %s : tensor<4xf32>, tensor<4xf32>
}
