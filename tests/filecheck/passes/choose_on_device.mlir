// RUN: nabla-opt %s --nabla-choose-on-device | filecheck %s

// The predicate is broadcast: nobody waits for it.
// CHECK-LABEL: func.func @branch
// CHECK-NOT: stablehlo.if
// CHECK: %[[S:.*]] = stablehlo.add %arg1, %arg2
// CHECK: %[[P:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<i1>) -> tensor<4xi1>
// CHECK: stablehlo.select %[[P]], %[[S]], %arg2
func.func @branch(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    %s = stablehlo.add %x, %y : tensor<4xf32>
    stablehlo.return %s : tensor<4xf32>
  }, {
    stablehlo.return %y : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// An index outside chooses the last branch.
// CHECK-LABEL: func.func @case
// CHECK-NOT: stablehlo.case
// CHECK: %[[P:.*]] = stablehlo.compare EQ, %arg0, %{{.*}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK: stablehlo.select %[[P]], %arg1, %arg2 : tensor<i1>, tensor<f32>
func.func @case(%i: tensor<i32>, %x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<f32>
  }, {
    stablehlo.return %y : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @select
// CHECK: stablehlo.select %{{.*}}, %arg1, %arg2 : tensor<4xi1>, tensor<4xf32>
func.func @select(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A division of integers ends the process where the divisor is 0; a large value is chosen without a copy.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-2: "stablehlo.if"
func.func @stays(%p: tensor<i1>, %i: tensor<i32>, %j: tensor<i32>, %x: tensor<100000xf32>, %y: tensor<100000xf32>) -> (tensor<i32>, tensor<100000xf32>) {
  %0 = "stablehlo.if"(%p) ({
    %q = stablehlo.divide %i, %j : tensor<i32>
    stablehlo.return %q : tensor<i32>
  }, {
    stablehlo.return %j : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  %1 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<100000xf32>
  }, {
    stablehlo.return %y : tensor<100000xf32>
  }) : (tensor<i1>) -> tensor<100000xf32>
  return %0, %1 : tensor<i32>, tensor<100000xf32>
}
