// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-roll-loops{repetitions=3 operations=4})' | filecheck %s
// Equal consecutive blocks of operations become a loop.

// Each block reads the result of the one before, and a value from outside.
// CHECK-LABEL: func.func @steps
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK: %[[N:.*]] = stablehlo.constant dense<4> : tensor<i32>
// CHECK: %[[R:.*]]:2 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A:.*]] = %[[X]])
// CHECK: stablehlo.compare LT, %[[I]], %[[N]]
// CHECK: %[[S:.*]] = stablehlo.sine %[[A]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.multiply %[[S]], %[[Y]]
// CHECK: stablehlo.return %{{.*}}, %[[B]]
// CHECK-NOT: stablehlo.sine
// CHECK: return %[[R]]#1
func.func @steps(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %y : tensor<4xf32>
  %2 = stablehlo.sine %1 : tensor<4xf32>
  %3 = stablehlo.multiply %2, %y : tensor<4xf32>
  %4 = stablehlo.sine %3 : tensor<4xf32>
  %5 = stablehlo.multiply %4, %y : tensor<4xf32>
  %6 = stablehlo.sine %5 : tensor<4xf32>
  %7 = stablehlo.multiply %6, %y : tensor<4xf32>
  return %7 : tensor<4xf32>
}

// The first block reads %x twice, later ones %x and the result of the block before: the roles are those of the later blocks.
// CHECK-LABEL: func.func @anchor
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[X]])
// CHECK: %[[S:.*]] = stablehlo.sine %[[A]]
// CHECK-NEXT: stablehlo.multiply %[[S]], %[[X]]
func.func @anchor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<4xf32>
  %2 = stablehlo.sine %1 : tensor<4xf32>
  %3 = stablehlo.multiply %2, %x : tensor<4xf32>
  %4 = stablehlo.sine %3 : tensor<4xf32>
  %5 = stablehlo.multiply %4, %x : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// Constants of equal elements that differ become one constant of numbers.
// CHECK-LABEL: func.func @rates
// CHECK: %[[C:.*]] = stablehlo.constant dense<[1.000000e+00, 5.000000e-01, 2.500000e-01]> : tensor<3xf32>
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A:.*]] = %{{.*}})
// CHECK: %[[S:.*]] = stablehlo.sine %[[A]]
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[C]], %[[I]], sizes = [1]
// CHECK: %[[RATE:.*]] = stablehlo.broadcast_in_dim
// CHECK: stablehlo.multiply %[[S]], %[[RATE]]
func.func @rates(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.multiply %0, %c0 : tensor<4xf32>
  %c1 = stablehlo.constant dense<0.5> : tensor<4xf32>
  %2 = stablehlo.sine %1 : tensor<4xf32>
  %3 = stablehlo.multiply %2, %c1 : tensor<4xf32>
  %c2 = stablehlo.constant dense<0.25> : tensor<4xf32>
  %4 = stablehlo.sine %3 : tensor<4xf32>
  %5 = stablehlo.multiply %4, %c2 : tensor<4xf32>
  return %5 : tensor<4xf32>
}

// The rows of an array are read by the counter; if their order has no rule, by a constant of indices.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%{{.*}}: tensor<1xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: stablehlo.dynamic_slice %[[Y]], %[[I]], sizes = [1]
// CHECK: %[[ORDER:.*]] = stablehlo.constant dense<[2, 0, 1]> : tensor<3xi32>
// CHECK: stablehlo.dynamic_slice %[[ORDER]], %[[I]], sizes = [1]
// CHECK: %[[NUMBER:.*]] = stablehlo.reshape
// CHECK: stablehlo.dynamic_slice %[[Y]], %[[NUMBER]], sizes = [1]
// CHECK-NOT: stablehlo.slice
// CHECK: return
func.func @rows(%x: tensor<1xf32>, %y: tensor<3xf32>) -> tensor<1xf32> {
  %0 = stablehlo.slice %y [0:1] : (tensor<3xf32>) -> tensor<1xf32>
  %1 = stablehlo.add %x, %0 : tensor<1xf32>
  %2 = stablehlo.slice %y [2:3] : (tensor<3xf32>) -> tensor<1xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<1xf32>
  %4 = stablehlo.slice %y [1:2] : (tensor<3xf32>) -> tensor<1xf32>
  %5 = stablehlo.add %3, %4 : tensor<1xf32>
  %6 = stablehlo.slice %y [0:1] : (tensor<3xf32>) -> tensor<1xf32>
  %7 = stablehlo.multiply %5, %6 : tensor<1xf32>
  %8 = stablehlo.slice %y [2:3] : (tensor<3xf32>) -> tensor<1xf32>
  %9 = stablehlo.add %7, %8 : tensor<1xf32>
  %10 = stablehlo.slice %y [1:2] : (tensor<3xf32>) -> tensor<1xf32>
  %11 = stablehlo.multiply %9, %10 : tensor<1xf32>
  return %11 : tensor<1xf32>
}

// Results of all blocks are rows of an array, which is the concatenation of them.
// CHECK-LABEL: func.func @losses
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK: %[[R:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A:.*]] = %[[X]], %[[T:.*]] = %{{.*}})
// CHECK: %[[S:.*]] = stablehlo.sine %[[A]]
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[S]]
// CHECK: stablehlo.dynamic_update_slice %[[T]], %[[ROW]], %[[I]]
// CHECK-NOT: stablehlo.concatenate
// CHECK: return %[[R]]#1, %[[R]]#2
func.func @losses(%x: tensor<f32>) -> (tensor<f32>, tensor<3xf32>) {
  %0 = stablehlo.sine %x : tensor<f32>
  %1 = stablehlo.cosine %0 : tensor<f32>
  %2 = stablehlo.sine %1 : tensor<f32>
  %3 = stablehlo.cosine %2 : tensor<f32>
  %4 = stablehlo.sine %3 : tensor<f32>
  %5 = stablehlo.cosine %4 : tensor<f32>
  %6 = stablehlo.reshape %0 : (tensor<f32>) -> tensor<1xf32>
  %7 = stablehlo.reshape %2 : (tensor<f32>) -> tensor<1xf32>
  %8 = stablehlo.reshape %4 : (tensor<f32>) -> tensor<1xf32>
  %9 = stablehlo.concatenate %6, %7, %8, dim = 0 : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %5, %9 : tensor<f32>, tensor<3xf32>
}

// A block reads the results of the two blocks before it: the loop carries both.
// CHECK-LABEL: func.func @two_before
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[B:.*]] = %[[Y]], %[[A:.*]] = %[[X]])
// CHECK: %[[S:.*]] = stablehlo.sine %[[B]]
// CHECK: %[[C:.*]] = stablehlo.multiply %[[S]], %[[A]]
// CHECK: stablehlo.return %{{.*}}, %[[C]], %[[B]]
func.func @two_before(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %y : tensor<f32>
  %1 = stablehlo.multiply %0, %x : tensor<f32>
  %2 = stablehlo.sine %1 : tensor<f32>
  %3 = stablehlo.multiply %2, %y : tensor<f32>
  %4 = stablehlo.sine %3 : tensor<f32>
  %5 = stablehlo.multiply %4, %1 : tensor<f32>
  %6 = stablehlo.sine %5 : tensor<f32>
  %7 = stablehlo.multiply %6, %3 : tensor<f32>
  return %7 : tensor<f32>
}

// Two arrays by turns: one iteration has two blocks.
// CHECK-LABEL: func.func @batches
// CHECK-SAME: (%{{.*}}: tensor<f32>, %[[Y:.*]]: tensor<f32>, %[[Z:.*]]: tensor<f32>)
// CHECK: %[[N:.*]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: stablehlo.while
// CHECK: stablehlo.multiply %{{.*}}, %[[Y]]
// CHECK: stablehlo.multiply %{{.*}}, %[[Z]]
// CHECK-NOT: stablehlo.multiply
// CHECK: return
func.func @batches(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.multiply %x, %y : tensor<f32>
  %1 = stablehlo.multiply %0, %z : tensor<f32>
  %2 = stablehlo.multiply %1, %y : tensor<f32>
  %3 = stablehlo.multiply %2, %z : tensor<f32>
  %4 = stablehlo.multiply %3, %y : tensor<f32>
  %5 = stablehlo.multiply %4, %z : tensor<f32>
  return %5 : tensor<f32>
}

// Layers read other weights each: they stay.
// CHECK-LABEL: func.func @layers
// CHECK-NOT: stablehlo.while
// CHECK: return
func.func @layers(%x: tensor<2xf32>, %u: tensor<2x2xf32>, %v: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.dot_general %u, %x, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.tanh %0 : tensor<2xf32>
  %2 = stablehlo.dot_general %v, %1, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.tanh %2 : tensor<2xf32>
  %4 = stablehlo.dot_general %w, %3, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = stablehlo.tanh %4 : tensor<2xf32>
  return %5 : tensor<2xf32>
}

// Regions are compared, too, with what they read from outside.
// CHECK-LABEL: func.func @regions
// CHECK-SAME: (%{{.*}}: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}})
// CHECK: %[[GO:.*]] = stablehlo.compare GT, %[[A]], %[[Y]]
// CHECK-NEXT: stablehlo.if
// CHECK: stablehlo.multiply %[[A]], %[[Y]]
// CHECK-NOT: stablehlo.if
// CHECK: return
func.func @regions(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %p0 = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %0 = "stablehlo.if"(%p0) ({
    %a = stablehlo.multiply %x, %y : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  %p1 = stablehlo.compare GT, %0, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = "stablehlo.if"(%p1) ({
    %a = stablehlo.multiply %0, %y : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }, {
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  %p2 = stablehlo.compare GT, %1, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %2 = "stablehlo.if"(%p2) ({
    %a = stablehlo.multiply %1, %y : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }, {
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %2 : tensor<f32>
}
