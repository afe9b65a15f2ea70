// RUN: nabla-opt %s --nabla-update-in-place | filecheck %s

// A loop writes rows of an array that is computed for it alone: nothing is copied, and IREE is told not to either.
// CHECK: module attributes {stream.topology
// CHECK-LABEL: func.func @owned
// CHECK-NOT: optimization_barrier
// CHECK: return
func.func @owned(%x: tensor<4x3xf32>, %v: tensor<1x3xf32>) -> tensor<4x3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %y = stablehlo.sine %x : tensor<4x3xf32>
  %r:2 = stablehlo.while(%i = %c, %a = %y) : tensor<i32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.dynamic_update_slice %a, %v, %i, %c : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4x3xf32>
  }
  return %r#1 : tensor<4x3xf32>
}

// The argument of the function is the caller's: the loop starts with a copy.
// CHECK-LABEL: func.func @given
// CHECK: %[[ZERO:.*]]:2 = util.optimization_barrier
// CHECK: %[[FILLED:.*]] = linalg.fill ins(%[[ZERO]]#0 : i32)
// CHECK-NEXT: %[[ZEROS:.*]] = stablehlo.bitcast_convert %[[FILLED]]
// CHECK-NEXT: %[[COPY:.*]] = stablehlo.add %arg0, %[[ZEROS]]
// CHECK-NEXT: stablehlo.while({{.*}}, %{{.*}} = %[[COPY]])
func.func @given(%x: tensor<4x3xf32>, %v: tensor<1x3xf32>) -> tensor<4x3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.dynamic_update_slice %a, %v, %i, %c : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4x3xf32>
  }
  return %r#1 : tensor<4x3xf32>
}
