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
// CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %arg0
// CHECK: %[[ZERO:.*]]:2 = util.optimization_barrier
// CHECK: %[[ZEROS:.*]] = linalg.fill ins(%[[ZERO]]#0 : i32)
// CHECK-NEXT: %[[SAME:.*]] = stablehlo.or %[[BITS]], %[[ZEROS]]
// CHECK-NEXT: %[[COPY:.*]] = stablehlo.bitcast_convert %[[SAME]]
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

// What reads an array may not be overtaken by what writes to it: the write gets a copy.
// CHECK-LABEL: func.func @read
// CHECK: %[[Y:.*]] = stablehlo.sine
// CHECK: stablehlo.cosine %[[Y]]
// CHECK: %[[BITS:.*]] = stablehlo.or
// CHECK-NEXT: %[[COPY:.*]] = stablehlo.bitcast_convert %[[BITS]]
// CHECK-NEXT: stablehlo.dynamic_update_slice %[[COPY]]
func.func @read(%x: tensor<3x3xf32>, %v: tensor<1x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.sine %x : tensor<3x3xf32>
  %r = stablehlo.cosine %y : tensor<3x3xf32>
  %w = stablehlo.dynamic_update_slice %y, %v, %c, %c : (tensor<3x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
  return %r, %w : tensor<3x3xf32>, tensor<3x3xf32>
}

// A branch returns an array from outside, which is read after the choice: its result has a buffer of its own.
// CHECK-LABEL: func.func @passed_on
// CHECK: stablehlo.if
// CHECK: %[[BITS:.*]] = stablehlo.or
// CHECK-NEXT: %[[COPY:.*]] = stablehlo.bitcast_convert %[[BITS]]
// CHECK-NEXT: stablehlo.return %[[COPY]]
func.func @passed_on(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {
  %y = stablehlo.sine %x : tensor<3xf32>
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %y : tensor<3xf32>
  }, {
    %z = stablehlo.cosine %x : tensor<3xf32>
    stablehlo.return %z : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  %s = stablehlo.add %r, %y : tensor<3xf32>
  return %s : tensor<3xf32>
}
