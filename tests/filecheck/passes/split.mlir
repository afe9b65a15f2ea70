// RUN: nabla-opt %s --split-input-file --nabla-split=known=0 | filecheck %s
// RUN: nabla-opt %s --split-input-file --pass-pipeline='builtin.module(nabla-split{known=0 max-residual-bytes=32})' | filecheck %s --check-prefix=SMALL

// The Hessian-vector product of the sum of sin. The transforms are expanded; what x decides is in the known half.
// CHECK-LABEL: func.func @hvp_sine(
// CHECK: %[[R:.*]] = call @hvp_sine_known(%{{.*}})
// CHECK: call @hvp_sine_rest(%[[R]], %{{.*}})
// CHECK-LABEL: func.func @hvp_sine_known(
// CHECK-SAME: %[[X:.*]]: tensor<3xf64>) -> tensor<3xf64>
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: return %[[S]]
// CHECK-LABEL: func.func @hvp_sine_rest(
// CHECK-SAME: %[[KEPT:.*]]: tensor<3xf64>, %[[V:.*]]: tensor<3xf64>)
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[KEPT]], %[[V]]
// CHECK-NEXT: stablehlo.negate %[[P]]
// SMALL-LABEL: func.func @hvp_sine(
func.func @hvp_sine(%x: tensor<3xf64>, %v: tensor<3xf64>) -> tensor<3xf64> {
  %g, %hv = "ad.jvp"(%x, %v) ({
  ^bb0(%y: tensor<3xf64>):
    %one = stablehlo.constant dense<1.0> : tensor<f64>
    %f, %dy = "ad.vjp"(%y, %one) ({
    ^bb0(%z: tensor<3xf64>):
      %s = stablehlo.sine %z : tensor<3xf64>
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %sum = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
      stablehlo.return %sum : tensor<f64>
    }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf64>, tensor<f64>) -> (tensor<f64>, tensor<3xf64>)
    stablehlo.return %dy : tensor<3xf64>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>)
  return %hv : tensor<3xf64>
}

// -----

// A view costs nothing to take again: the vector is kept, not the matrix that it is broadcast to. Within 32 bytes
// its sine is computed again from what is smaller.
// CHECK-LABEL: func.func @views_known(
// CHECK-SAME: -> tensor<4xf64>
// CHECK-LABEL: func.func @views_rest(
// CHECK: stablehlo.broadcast_in_dim
// CHECK-NEXT: stablehlo.multiply
// SMALL-LABEL: func.func @views_known(
// SMALL-SAME: -> tensor<4xf64>
func.func @views(%x: tensor<4xf64>, %v: tensor<8x4xf64>) -> tensor<8x4xf64> {
  %s = stablehlo.sine %x : tensor<4xf64>
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf64>) -> tensor<8x4xf64>
  %y = stablehlo.multiply %v, %b : tensor<8x4xf64>
  return %y : tensor<8x4xf64>
}

// -----

// Two values are kept, unless only one fits: then both are computed again from what they are made of.
// CHECK-LABEL: func.func @two_known(
// CHECK-SAME: -> (tensor<4xf64>, tensor<4xf64>)
// SMALL-LABEL: func.func @two_known(
// SMALL-SAME: -> tensor<4xf64>
// SMALL-LABEL: func.func @two_rest(
// SMALL-SAME: tensor<4xf64>, %{{.*}}: tensor<4xf64>)
// SMALL-DAG: stablehlo.sine
// SMALL-DAG: stablehlo.cosine
func.func @two(%x: tensor<4xf64>, %v: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>) {
  %s = stablehlo.sine %x : tensor<4xf64>
  %c = stablehlo.cosine %x : tensor<4xf64>
  %y = stablehlo.multiply %v, %s : tensor<4xf64>
  %z = stablehlo.multiply %v, %c : tensor<4xf64>
  return %y, %z : tensor<4xf64>, tensor<4xf64>
}

// -----

// A loop of known length becomes one that fills a tape, and one that reads it.
// CHECK-LABEL: func.func @loop_known(
// CHECK-SAME: -> tensor<5xf64>
// CHECK: stablehlo.while
// CHECK: stablehlo.cosine
// CHECK: stablehlo.dynamic_update_slice
// CHECK-LABEL: func.func @loop_rest(
// CHECK-SAME: %[[TAPE:.*]]: tensor<5xf64>, %{{.*}}: tensor<f64>)
// CHECK: stablehlo.while
// CHECK-NOT: stablehlo.cosine
// CHECK: stablehlo.dynamic_slice %[[TAPE]]
// The tape is larger than the limit: the loop stays whole.
// SMALL-LABEL: func.func @loop_known(
// SMALL-SAME: -> tensor<f64>
// SMALL-LABEL: func.func @loop_rest(
// SMALL: stablehlo.while
// SMALL: stablehlo.cosine
func.func @loop(%x: tensor<f64>, %v: tensor<f64>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %v) : tensor<i32>, tensor<f64>, tensor<f64>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %a : tensor<f64>
      %c = stablehlo.cosine %a : tensor<f64>
      %d = stablehlo.multiply %b, %c : tensor<f64>
      stablehlo.return %j, %s, %d : tensor<i32>, tensor<f64>, tensor<f64>
    }
  return %r#2 : tensor<f64>
}

// -----

// A choice by a known predicate becomes two; each branch keeps what it needs.
// CHECK-LABEL: func.func @choice_known(
// CHECK: stablehlo.case
// CHECK: stablehlo.sine
// CHECK-LABEL: func.func @choice_rest(
// CHECK: stablehlo.case
// CHECK-NOT: stablehlo.sine
// SMALL-LABEL: func.func @choice(
func.func @choice(%x: tensor<f64>, %v: tensor<f64>) -> tensor<f64> {
  %k = stablehlo.convert %x : (tensor<f64>) -> tensor<i32>
  %r = "stablehlo.case"(%k) ({
    %s = stablehlo.sine %x : tensor<f64>
    %y = stablehlo.multiply %v, %s : tensor<f64>
    stablehlo.return %y : tensor<f64>
  }, {
    %y = stablehlo.negate %v : tensor<f64>
    stablehlo.return %y : tensor<f64>
  }) : (tensor<i32>) -> tensor<f64>
  return %r : tensor<f64>
}

// -----

// Calls are inlined first, those of a transform too.
// CHECK-LABEL: func.func @calls(
// CHECK-LABEL: func.func @calls_known(
// CHECK: stablehlo.cosine
// CHECK-LABEL: func.func @calls_rest(
// CHECK-NOT: stablehlo.cosine
// CHECK: stablehlo.multiply
// SMALL-LABEL: func.func @calls(
func.func @calls(%x: tensor<4xf64>, %v: tensor<4xf64>) -> tensor<4xf64> {
  %y = func.call @push(%x, %v) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func private @push(%x: tensor<4xf64>, %v: tensor<4xf64>) -> tensor<4xf64> {
  %y, %dy = "ad.jvp"(%x, %v) ({
  ^bb0(%a: tensor<4xf64>):
    %b = stablehlo.sine %a : tensor<4xf64>
    stablehlo.return %b : tensor<4xf64>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<4xf64>, tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>)
  return %dy : tensor<4xf64>
}

// -----

// Known factors of unknown values are collected: of two products and a sum one product is left.
// CHECK-LABEL: func.func @factors_known(
// CHECK-SAME: -> tensor<4xf64>
// CHECK-LABEL: func.func @factors_rest(
// CHECK-NEXT: %[[Y:.*]] = stablehlo.multiply
// CHECK-NEXT: return %[[Y]]
// A row and a column stay apart: their product would be larger than both.
// CHECK-LABEL: func.func @outer_known(
// CHECK-SAME: -> (tensor<4xf64>, tensor<4xf64>)
// SMALL-LABEL: func.func @factors(
func.func @factors(%x: tensor<4xf64>, %v: tensor<4xf64>) -> tensor<4xf64> {
  %s = stablehlo.sine %x : tensor<4xf64>
  %c = stablehlo.cosine %x : tensor<4xf64>
  %a = stablehlo.multiply %v, %s : tensor<4xf64>
  %b = stablehlo.multiply %a, %c : tensor<4xf64>
  %d = stablehlo.divide %v, %c : tensor<4xf64>
  %y = stablehlo.subtract %b, %d : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

// SMALL-LABEL: func.func @outer(
func.func @outer(%x: tensor<4xf64>, %v: tensor<4x4xf64>) -> tensor<4x4xf64> {
  %s = stablehlo.sine %x : tensor<4xf64>
  %c = stablehlo.cosine %x : tensor<4xf64>
  %row = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf64>) -> tensor<4x4xf64>
  %column = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<4xf64>) -> tensor<4x4xf64>
  %a = stablehlo.multiply %v, %row : tensor<4x4xf64>
  %y = stablehlo.multiply %a, %column : tensor<4x4xf64>
  return %y : tensor<4x4xf64>
}
