// RUN: nabla-opt %s --nabla-fuse-chains='max-copies=4 max-bindings=4' | filecheck %s

// CHECK-DAG: #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[SCALAR:.*]] = affine_map<(d0, d1) -> ()>
// CHECK-DAG: #[[WHOLE:.*]] = affine_map<(d0, d1) -> (d0, d1)>

// Each value is read by the two behind it; IREE would write the first of them once for each way to the last.
// CHECK-LABEL: func.func @recurrence
// CHECK: %[[Y:.*]] = flow.dispatch.workgroups(%arg0) : (tensor<3xf32>) -> tensor<3xf32> =
// CHECK-NEXT: (%[[IN:.*]]: !iree_tensor_ext.dispatch.tensor<readonly:tensor<3xf32>>, %[[OUT:.*]]: !iree_tensor_ext.dispatch.tensor<writeonly:tensor<3xf32>>) {
// CHECK: %[[X:.*]] = iree_tensor_ext.dispatch.tensor.load %[[IN]]
// CHECK: %[[RESULT:.*]] = linalg.generic
// CHECK-SAME: ins(%[[X]] : tensor<3xf32>)
// CHECK-COUNT-4: arith.mulf
// CHECK: linalg.yield %{{.*}} : f32
// CHECK: iree_tensor_ext.dispatch.tensor.store %[[RESULT]], %[[OUT]]
// CHECK-NOT: stablehlo
// CHECK: return %[[Y]]
func.func @recurrence(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  %c = stablehlo.multiply %b, %a : tensor<3xf32>
  %d = stablehlo.multiply %c, %b : tensor<3xf32>
  %e = stablehlo.multiply %d, %c : tensor<3xf32>
  return %e : tensor<3xf32>
}

// What IREE writes few operations for is left to it.
// CHECK-LABEL: func.func @short
// CHECK-NOT: flow.dispatch.workgroups
// CHECK: return
func.func @short(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  return %b : tensor<3xf32>
}

// Broadcasts and numbers are read as they lie, and values of one element are scalars.
// CHECK-LABEL: func.func @reads
// CHECK: %[[Y:.*]] = stablehlo.reshape %arg1 : (tensor<1xi32>) -> tensor<i32>
// CHECK-NOT: broadcast_in_dim
// CHECK: flow.dispatch.workgroups(%arg0, %[[Y]]) : (tensor<2xi32>, tensor<i32>) -> tensor<3x2xi32>
// CHECK: linalg.generic {indexing_maps = [#[[COLUMN]], #[[SCALAR]], #[[WHOLE]]]
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<2xi32>, tensor<i32>)
// CHECK: return
func.func @reads(%x: tensor<2xi32>, %y: tensor<1xi32>) -> tensor<3x2xi32> {
  %two = stablehlo.constant dense<2> : tensor<3x2xi32>
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2xi32>) -> tensor<3x2xi32>
  %1 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<1xi32>) -> tensor<3x2xi32>
  %a = stablehlo.multiply %0, %1 : tensor<3x2xi32>
  %b = stablehlo.multiply %a, %0 : tensor<3x2xi32>
  %c = stablehlo.add %b, %a : tensor<3x2xi32>
  %d = stablehlo.multiply %c, %b : tensor<3x2xi32>
  %e = stablehlo.multiply %d, %two : tensor<3x2xi32>
  %f = stablehlo.add %e, %d : tensor<3x2xi32>
  return %f : tensor<3x2xi32>
}

// A dispatch reads and writes at most four buffers.
// CHECK-LABEL: func.func @results
// CHECK-COUNT-3: flow.dispatch.workgroups
// CHECK-NOT: flow.dispatch.workgroups
// CHECK: return
func.func @results(%x: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  %c = stablehlo.multiply %b, %a : tensor<3xf32>
  %d = stablehlo.multiply %c, %b : tensor<3xf32>
  %e = stablehlo.multiply %d, %c : tensor<3xf32>
  return %a, %b, %c, %d, %e : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// A sum leaves the chain, and what reads it begins another one, that is short.
// CHECK-LABEL: func.func @stages
// CHECK: flow.dispatch.workgroups(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK: stablehlo.reduce
// CHECK-NOT: flow.dispatch.workgroups
// CHECK: return
func.func @stages(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  %c = stablehlo.multiply %b, %a : tensor<3xf32>
  %d = stablehlo.multiply %c, %b : tensor<3xf32>
  %e = stablehlo.multiply %d, %c : tensor<3xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %t = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %f = stablehlo.multiply %t, %e : tensor<3xf32>
  return %f : tensor<3xf32>
}

// Results that are equal once MLIR has simplified the code (1 + e, e + 1) are one of the dispatch: IREE refuses a dispatch that writes one value twice.
// CHECK-LABEL: func.func @equal
// CHECK: %[[Y:.*]]:2 = flow.dispatch.workgroups(%arg0) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK: linalg.yield %{{.*}}, %{{.*}} : f32, f32
// CHECK: return %[[Y]]#0, %[[Y]]#1, %[[Y]]#1
func.func @equal(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  %c = stablehlo.multiply %b, %a : tensor<3xf32>
  %d = stablehlo.multiply %c, %b : tensor<3xf32>
  %e = stablehlo.multiply %d, %c : tensor<3xf32>
  %f = stablehlo.add %one, %e : tensor<3xf32>
  %g = stablehlo.add %e, %one : tensor<3xf32>
  return %e, %f, %g : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// Those that are a number or an input are no results of the dispatch.
// CHECK-LABEL: func.func @known
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<3xi32>
// CHECK: %[[Y:.*]] = flow.dispatch.workgroups(%arg0) : (tensor<3xi32>) -> tensor<3xi32>
// CHECK: return %[[Y]], %[[ZERO]], %arg0
func.func @known(%x: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
  %a = stablehlo.multiply %x, %x : tensor<3xi32>
  %b = stablehlo.multiply %a, %x : tensor<3xi32>
  %c = stablehlo.multiply %b, %a : tensor<3xi32>
  %d = stablehlo.multiply %c, %b : tensor<3xi32>
  %e = stablehlo.multiply %d, %c : tensor<3xi32>
  %f = stablehlo.xor %e, %e : tensor<3xi32>
  %g = stablehlo.or %f, %x : tensor<3xi32>
  return %e, %f, %g : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
}

// A slice is read from the value that it is a part of, also without its axes of size 1.
// CHECK-LABEL: func.func @column
// CHECK: flow.dispatch.workgroups(%arg0) : (tensor<3x2xf32>) -> tensor<3xf32>
// CHECK: iree_tensor_ext.dispatch.tensor.load %{{.*}}, offsets = [0, 1], sizes = [3, 1], strides = [1, 1]
// CHECK-SAME: -> tensor<3xf32>
func.func @column(%y: tensor<3x2xf32>) -> tensor<3xf32> {
  %s = stablehlo.slice %y [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %x = stablehlo.reshape %s : (tensor<3x1xf32>) -> tensor<3xf32>
  %a = stablehlo.sine %x : tensor<3xf32>
  %b = stablehlo.multiply %a, %x : tensor<3xf32>
  %c = stablehlo.multiply %b, %a : tensor<3xf32>
  %d = stablehlo.multiply %c, %b : tensor<3xf32>
  %e = stablehlo.multiply %d, %c : tensor<3xf32>
  return %e : tensor<3xf32>
}
