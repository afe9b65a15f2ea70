// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-hoist-products)' | filecheck %s
// Products of rows and of what does not change go before the loop, all rows at once.

// What stands between the row and the product is mapped too; the product with the state stays.
// CHECK-LABEL: func.func @inputs
// CHECK: %[[S:.*]] = stablehlo.sine %[[XS:.*]] : tensor<5x8xf32>
// CHECK: %[[P:.*]] = stablehlo.dot_general %[[S]], %[[W:.*]], contracting_dims = [1] x [0]{{.*}} -> tensor<5x4xf32>
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[H:.*]] = %{{.*}})
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[P]], %[[I]]
// CHECK: stablehlo.dot_general %[[H]], %{{.*}} : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
// CHECK-NOT: stablehlo.dot_general
// CHECK: return
func.func @inputs(%xs: tensor<5x8xf32>, %w: tensor<8x4xf32>, %u: tensor<4x4xf32>, %h: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c5 = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = "stablehlo.while"(%c0, %h) ({
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %go = stablehlo.compare LT, %i, %c5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %sliced = stablehlo.dynamic_slice %xs, %i, %c0, sizes = [1, 8] : (tensor<5x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %x = stablehlo.reshape %sliced : (tensor<1x8xf32>) -> tensor<8xf32>
    %s = stablehlo.sine %x : tensor<8xf32>
    %p = stablehlo.dot_general %s, %w, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
    %q = stablehlo.dot_general %a, %u, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
    %b = stablehlo.add %p, %q : tensor<4xf32>
    stablehlo.return %next, %b : tensor<i32>, tensor<4xf32>
  }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
  return %r#1 : tensor<4xf32>
}

// More rows than iterations: the loop computes less.
// CHECK-LABEL: func.func @few
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general
func.func @few(%xs: tensor<9x8xf32>, %w: tensor<8x8xf32>, %h: tensor<8xf32>) -> tensor<8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c5 = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = "stablehlo.while"(%c0, %h) ({
  ^bb0(%i: tensor<i32>, %a: tensor<8xf32>):
    %go = stablehlo.compare LT, %i, %c5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<8xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %sliced = stablehlo.dynamic_slice %xs, %i, %c0, sizes = [1, 8] : (tensor<9x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %x = stablehlo.reshape %sliced : (tensor<1x8xf32>) -> tensor<8xf32>
    %p = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
    %b = stablehlo.add %p, %a : tensor<8xf32>
    stablehlo.return %next, %b : tensor<i32>, tensor<8xf32>
  }) : (tensor<i32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>)
  return %r#1 : tensor<8xf32>
}

// A row is read at indices of the type of the counter.
// CHECK-LABEL: func.func @wide_counter
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.while
// CHECK: stablehlo.dynamic_slice %{{.*}}, %{{.*}}, %{{.*}}, sizes = [1, 4] : (tensor<5x4xf32>, tensor<i64>, tensor<i64>)
func.func @wide_counter(%xs: tensor<5x8xf32>, %w: tensor<8x4xf32>, %u: tensor<4x4xf32>, %h: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i64>
  %c5 = stablehlo.constant dense<5> : tensor<i64>
  %r:2 = "stablehlo.while"(%c0, %h) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    %go = stablehlo.compare LT, %i, %c5 : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    %one = stablehlo.constant dense<1> : tensor<i64>
    %next = stablehlo.add %i, %one : tensor<i64>
    %sliced = stablehlo.dynamic_slice %xs, %i, %c0, sizes = [1, 8] : (tensor<5x8xf32>, tensor<i64>, tensor<i64>) -> tensor<1x8xf32>
    %x = stablehlo.reshape %sliced : (tensor<1x8xf32>) -> tensor<8xf32>
    %s = stablehlo.sine %x : tensor<8xf32>
    %p = stablehlo.dot_general %s, %w, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
    %q = stablehlo.dot_general %a, %u, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4xf32>
    %b = stablehlo.add %p, %q : tensor<4xf32>
    stablehlo.return %next, %b : tensor<i64>, tensor<4xf32>
  }) : (tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  return %r#1 : tensor<4xf32>
}

// A block of several rows is not a row, even if it has as many elements.
// CHECK-LABEL: func.func @blocks
// CHECK-NOT: stablehlo.dot_general
// CHECK: stablehlo.while
// CHECK: stablehlo.dynamic_slice %{{.*}}, %{{.*}}, %{{.*}}, sizes = [2, 4]
// CHECK: stablehlo.dot_general
func.func @blocks(%xs: tensor<5x8xf32>, %w: tensor<8x4xf32>, %h: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c5 = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = "stablehlo.while"(%c0, %h) ({
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %go = stablehlo.compare LT, %i, %c5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %sliced = stablehlo.dynamic_slice %xs, %i, %c0, sizes = [2, 4] : (tensor<5x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %x = stablehlo.reshape %sliced : (tensor<2x4xf32>) -> tensor<8xf32>
    %p = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
    %b = stablehlo.add %p, %a : tensor<4xf32>
    stablehlo.return %next, %b : tensor<i32>, tensor<4xf32>
  }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
  return %r#1 : tensor<4xf32>
}
