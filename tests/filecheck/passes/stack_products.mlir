// RUN: nabla-opt %s --nabla-stack-products | filecheck %s

// The product is summed over all iterations at once: one factor is read from a tape, the other gets one.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: (%[[TAPE:.*]]: tensor<4x3xf32>, %[[CT:.*]]: tensor<2xf32>)
// CHECK: %[[R:.*]]:3 = stablehlo.while
// CHECK-NOT: stablehlo.dot_general
// CHECK: stablehlo.dynamic_update_slice
// CHECK: stablehlo.return
// CHECK: %[[SUM:.*]] = stablehlo.dot_general %[[TAPE]], %[[R]]#2, contracting_dims = [0] x [0]
// CHECK-NEXT: return %[[SUM]]
func.func @gradient(%tape: tensor<4x3xf32>, %ct: tensor<2xf32>) -> tensor<3x2xf32> {
  %last = stablehlo.constant dense<3> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<3x2xf32>
  %r:3 = "stablehlo.while"(%last, %ct, %empty) ({
  ^bb0(%i: tensor<i32>, %c: tensor<2xf32>, %sum: tensor<3x2xf32>):
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %go = stablehlo.compare GE, %i, %0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %c: tensor<2xf32>, %sum: tensor<3x2xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %i1 = stablehlo.subtract %i, %one : tensor<i32>
    %row = stablehlo.dynamic_slice %tape, %i, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %h = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
    %c1 = stablehlo.sine %c : tensor<2xf32>
    %p = stablehlo.dot_general %h, %c1, contracting_dims = [] x [] : (tensor<3xf32>, tensor<2xf32>) -> tensor<3x2xf32>
    %s = stablehlo.add %sum, %p : tensor<3x2xf32>
    stablehlo.return %i1, %c1, %s : tensor<i32>, tensor<2xf32>, tensor<3x2xf32>
  }) : (tensor<i32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<3x2xf32>) loc("vjp(stablehlo.while)")
  return %r#2 : tensor<3x2xf32>
}

// A sum that an iteration reads stays in the loop.
// CHECK-LABEL: func.func @read
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.return
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @read(%x: tensor<3xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<f32>
  %r:3 = "stablehlo.while"(%zero, %x, %empty) ({
  ^bb0(%i: tensor<i32>, %a: tensor<3xf32>, %sum: tensor<f32>):
    %n = stablehlo.constant dense<4> : tensor<i32>
    %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<3xf32>, %sum: tensor<f32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %i1 = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
    %s = stablehlo.add %sum, %p : tensor<f32>
    %b = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<3xf32>
    stablehlo.return %i1, %b, %s : tensor<i32>, tensor<3xf32>, tensor<f32>
  }) : (tensor<i32>, tensor<3xf32>, tensor<f32>) -> (tensor<i32>, tensor<3xf32>, tensor<f32>)
  return %r#2 : tensor<f32>
}
