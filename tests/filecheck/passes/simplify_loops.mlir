// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-simplify)' | filecheck %s
// Loops: carries that nobody needs, that run alike, that do not change; work that can go before the loop.

// A carry that only feeds itself goes with what computes it, and of two counters that run alike one is enough.
// CHECK-LABEL: func.func @carries
// CHECK: %[[R:.*]]:2 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A:.*]] = %{{.*}})
// CHECK-NOT: stablehlo.sine
// CHECK: %[[S:.*]] = stablehlo.multiply %[[A]], %[[I]]
// CHECK: stablehlo.return %{{.*}}, %[[S]]
// CHECK: return %[[R]]#1
func.func @carries(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  %r:4 = "stablehlo.while"(%n, %x, %x, %n) ({
  ^bb0(%i: tensor<f32>, %dead: tensor<f32>, %a: tensor<f32>, %j: tensor<f32>):
    %go = stablehlo.compare GT, %i, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<f32>, %dead: tensor<f32>, %a: tensor<f32>, %j: tensor<f32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %i1 = stablehlo.subtract %i, %one : tensor<f32>
    %j1 = stablehlo.subtract %j, %one : tensor<f32>
    %dead1 = stablehlo.sine %dead : tensor<f32>
    %a1 = stablehlo.multiply %a, %j : tensor<f32>
    stablehlo.return %i1, %dead1, %a1, %j1 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }) : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  return %r#2 : tensor<f32>
}

// What two carries share is live as long as one of them is.
// CHECK-LABEL: func.func @crossed
// CHECK: stablehlo.while({{.*}}, {{.*}}, {{.*}})
// CHECK: stablehlo.sine
// CHECK: stablehlo.cosine
func.func @crossed(%x: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  %r:3 = "stablehlo.while"(%n, %x, %x) ({
  ^bb0(%i: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>):
    %go = stablehlo.compare GT, %i, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<f32>, %a: tensor<f32>, %b: tensor<f32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %i1 = stablehlo.subtract %i, %one : tensor<f32>
    %a1 = stablehlo.sine %b : tensor<f32>
    %b1 = stablehlo.cosine %a : tensor<f32>
    stablehlo.return %i1, %a1, %b1 : tensor<f32>, tensor<f32>, tensor<f32>
  }) : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return %r#1 : tensor<f32>
}

// A carry that never changes is used from outside, and a product of such values is computed once, before the loop.
// CHECK-LABEL: func.func @invariant
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK-NOT: stablehlo.dot_general
// CHECK: return
func.func @invariant(%x: tensor<2xf32>, %w: tensor<2x2xf32>, %n: tensor<f32>) -> tensor<2xf32> {
  %r:3 = "stablehlo.while"(%n, %x, %w) ({
  ^bb0(%i: tensor<f32>, %a: tensor<2xf32>, %m: tensor<2x2xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %go = stablehlo.compare GT, %i, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<f32>, %a: tensor<2xf32>, %m: tensor<2x2xf32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %i1 = stablehlo.subtract %i, %one : tensor<f32>
    %p = stablehlo.dot_general %m, %x, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %a1 = stablehlo.multiply %a, %p : tensor<2xf32>
    stablehlo.return %i1, %a1, %m : tensor<f32>, tensor<2xf32>, tensor<2x2xf32>
  }) : (tensor<f32>, tensor<2xf32>, tensor<2x2xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2x2xf32>)
  return %r#1 : tensor<2xf32>
}

// A tape of what a carry was before each iteration: the initial value, and all rows but the last of the tape of what it is
// behind it.
// CHECK-LABEL: func.func @shifted
// CHECK: %[[R:.*]]:3 = stablehlo.while
// CHECK-COUNT-1: stablehlo.dynamic_update_slice
// CHECK-NOT: stablehlo.dynamic_update_slice
// CHECK: %[[FIRST:.*]] = stablehlo.reshape %{{.*}} : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK: %[[ROWS:.*]] = stablehlo.slice %{{.*}} [0:3, 0:2]
// CHECK: stablehlo.concatenate %[[FIRST]], %[[ROWS]], dim = 0
func.func @shifted(%x: tensor<2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:4 = "stablehlo.while"(%zero, %x, %empty, %empty) ({
  ^bb0(%i: tensor<i32>, %h: tensor<2xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>):
    %n = stablehlo.constant dense<4> : tensor<i32>
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<2xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %i1 = stablehlo.add %i, %one : tensor<i32>
    %h1 = stablehlo.sine %h : tensor<2xf32>
    %before = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %after = stablehlo.reshape %h1 : (tensor<2xf32>) -> tensor<1x2xf32>
    %a1 = stablehlo.dynamic_update_slice %a, %before, %i, %0 : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %b1 = stablehlo.dynamic_update_slice %b, %after, %i, %0 : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    stablehlo.return %i1, %h1, %a1, %b1 : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
  }) : (tensor<i32>, tensor<2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<4x2xf32>, tensor<4x2xf32>)
  return %r#2, %r#3 : tensor<4x2xf32>, tensor<4x2xf32>
}

// Every iteration reads its row and overwrites it: the rows are those that the tape starts with, and nothing is carried.
// CHECK-LABEL: func.func @read
// CHECK-SAME: (%[[TAPE:.*]]: tensor<4x2xf32>)
// CHECK: stablehlo.while
// CHECK: stablehlo.dynamic_slice %[[TAPE]]
// CHECK-NOT: stablehlo.dynamic_update_slice
// CHECK: return
func.func @read(%tape: tensor<4x2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<1.0> : tensor<2xf32>
  %r:3 = "stablehlo.while"(%zero, %start, %tape) ({
  ^bb0(%i: tensor<i32>, %h: tensor<2xf32>, %a: tensor<4x2xf32>):
    %n = stablehlo.constant dense<4> : tensor<i32>
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<2xf32>, %a: tensor<4x2xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %blank = stablehlo.constant dense<0.0> : tensor<1x2xf32>
    %i1 = stablehlo.add %i, %one : tensor<i32>
    %row = stablehlo.dynamic_slice %a, %i, %0, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %flat = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>
    %h1 = stablehlo.multiply %h, %flat : tensor<2xf32>
    %a1 = stablehlo.dynamic_update_slice %a, %blank, %i, %0 : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    stablehlo.return %i1, %h1, %a1 : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }) : (tensor<i32>, tensor<2xf32>, tensor<4x2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<4x2xf32>)
  return %r#1 : tensor<2xf32>
}

// Complex constants are compared as others are.
// CHECK-LABEL: func.func @complex_carries
// CHECK: %[[R:.*]]:2 = stablehlo.while(
// CHECK: return %[[R]]#1, %[[R]]#1
func.func @complex_carries(%n: tensor<f32>, %z: tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) {
  %r:3 = stablehlo.while(%i = %n, %a = %z, %b = %z) : tensor<f32>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
  cond {
    %t = stablehlo.constant dense<1.0> : tensor<f32>
    %p = stablehlo.compare GT, %i, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %j = stablehlo.subtract %i, %one : tensor<f32>
    %u = stablehlo.constant dense<(0.5, 1.0)> : tensor<2xcomplex<f32>>
    %v = stablehlo.constant dense<(0.5, 1.0)> : tensor<2xcomplex<f32>>
    %c = stablehlo.multiply %a, %u : tensor<2xcomplex<f32>>
    %d = stablehlo.multiply %b, %v : tensor<2xcomplex<f32>>
    stablehlo.return %j, %c, %d : tensor<f32>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
  }
  return %r#1, %r#2 : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
}
