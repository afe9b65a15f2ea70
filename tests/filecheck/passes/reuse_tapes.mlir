// RUN: nabla-opt %s --nabla-reuse-tapes | filecheck %s

// Each iteration reads the row that it then writes: the tape starts as what is read.
// CHECK-LABEL: func.func @consumed
// CHECK: %[[ROWS:.*]] = stablehlo.sine
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[TAPE:.*]] = %[[ROWS]])
// CHECK: stablehlo.dynamic_slice %[[TAPE]], %{{.*}}
// CHECK: stablehlo.dynamic_update_slice %[[TAPE]], %{{.*}}
func.func @consumed(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %4 = stablehlo.constant dense<4> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %rows = stablehlo.sine %x : tensor<4x3xf32>
  %r:2 = stablehlo.while(%i = %0, %tape = %empty) : tensor<i32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %rows, %i, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %new = stablehlo.reverse %row, dims = [1] : tensor<1x3xf32>
    %next = stablehlo.dynamic_update_slice %tape, %new, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %j = stablehlo.add %i, %1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x3xf32>
  }
  return %r#1 : tensor<4x3xf32>
}

// What is read before the loop, by what the loop is computed from: the tape starts as it.
// CHECK-LABEL: func.func @read_before
// CHECK: %[[ROWS:.*]] = stablehlo.sine
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[TAPE:.*]] = %[[ROWS]])
func.func @read_before(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %empty = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %rows = stablehlo.sine %x : tensor<4x3xf32>
  %start = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  %r:3 = stablehlo.while(%i = %0, %h = %start, %tape = %empty) : tensor<i32>, tensor<3xf32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %g = stablehlo.cosine %h : tensor<3xf32>
    %new = stablehlo.reshape %g : (tensor<3xf32>) -> tensor<1x3xf32>
    %next = stablehlo.dynamic_update_slice %tape, %new, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %j = stablehlo.add %i, %1 : tensor<i32>
    stablehlo.return %j, %g, %next : tensor<i32>, tensor<3xf32>, tensor<4x3xf32>
  }
  return %r#2 : tensor<4x3xf32>
}

// What something else reads, an argument, and a row that is not the one written stay as they are.
// CHECK-LABEL: func.func @needed
// CHECK: %[[EMPTY:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[EMPTY]], %{{.*}} = %[[EMPTY]], %{{.*}} = %[[EMPTY]])
func.func @needed(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %4 = stablehlo.constant dense<4> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %rows = stablehlo.sine %x : tensor<4x3xf32>
  %others = stablehlo.cosine %x : tensor<4x3xf32>
  %r:4 = stablehlo.while(%i = %0, %a = %empty, %b = %empty, %c = %empty) : tensor<i32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %rows, %i, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %given = stablehlo.dynamic_slice %x, %i, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %j = stablehlo.add %i, %1 : tensor<i32>
    %later = stablehlo.dynamic_slice %others, %j, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %u = stablehlo.dynamic_update_slice %a, %row, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %v = stablehlo.dynamic_update_slice %b, %given, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %w = stablehlo.dynamic_update_slice %c, %later, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    stablehlo.return %j, %u, %v, %w : tensor<i32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
  }
  return %r#1, %r#2, %r#3, %rows : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

// A tape is not started as rows that the iteration reads without computing what it writes from them.
// CHECK-LABEL: func.func @not_from_it
// CHECK: %[[EMPTY:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %[[EMPTY]])
func.func @not_from_it(%x: tensor<4x3xf32>, %start: tensor<1x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %4 = stablehlo.constant dense<4> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %rows = stablehlo.sine %x : tensor<4x3xf32>
  %r:3 = stablehlo.while(%i = %0, %h = %start, %tape = %empty) : tensor<i32>, tensor<1x3xf32>, tensor<4x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %rows, %i, %0, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %g = stablehlo.multiply %h, %row : tensor<1x3xf32>
    %next = stablehlo.dynamic_update_slice %tape, %h, %i, %0 : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %j = stablehlo.add %i, %1 : tensor<i32>
    stablehlo.return %j, %g, %next : tensor<i32>, tensor<1x3xf32>, tensor<4x3xf32>
  }
  return %r#2 : tensor<4x3xf32>
}
