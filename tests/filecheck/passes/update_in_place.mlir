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

// What IREE merges is one buffer, also where the shapes differ: each update has a copy of its own.
// CHECK-LABEL: func.func @twins
// CHECK: stablehlo.sine
// CHECK: %[[ONE:.*]] = stablehlo.or
// CHECK: %[[COPY:.*]] = stablehlo.bitcast_convert %[[ONE]]
// CHECK-NEXT: stablehlo.dynamic_update_slice %[[COPY]]
// CHECK: %[[OTHER:.*]] = stablehlo.or
// CHECK: %[[COPY:.*]] = stablehlo.bitcast_convert %[[OTHER]]
// CHECK-NEXT: stablehlo.dynamic_update_slice %[[COPY]]
func.func @twins(%x: tensor<2x3xf32>, %v: tensor<1x3xf32>, %w: tensor<1xf32>) -> (tensor<2x3xf32>, tensor<6xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.sine %x : tensor<2x3xf32>
  %r = stablehlo.dynamic_update_slice %y, %v, %c, %c : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %flat = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %z = stablehlo.sine %flat : tensor<6xf32>
  %s = stablehlo.dynamic_update_slice %z, %w, %c : (tensor<6xf32>, tensor<1xf32>, tensor<i32>) -> tensor<6xf32>
  return %r, %s : tensor<2x3xf32>, tensor<6xf32>
}

// Reductions of different operands, and numbers that differ, are no twins: nothing is copied.
// CHECK-LABEL: func.func @no_twins
// CHECK-NOT: stablehlo.or
// CHECK: return
func.func @no_twins(%x: tensor<2x3xf32>, %w: tensor<1xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1.0> : tensor<2xf32>
  %two = stablehlo.constant dense<2.0> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %b = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %p = stablehlo.add %a, %one : tensor<2xf32>
  %q = stablehlo.add %b, %two : tensor<2xf32>
  %r = stablehlo.dynamic_update_slice %p, %w, %c : (tensor<2xf32>, tensor<1xf32>, tensor<i32>) -> tensor<2xf32>
  %s = stablehlo.dynamic_update_slice %q, %w, %c : (tensor<2xf32>, tensor<1xf32>, tensor<i32>) -> tensor<2xf32>
  return %r, %s : tensor<2xf32>, tensor<2xf32>
}
