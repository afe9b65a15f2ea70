// RUN: nabla-opt %s --nabla-normalize --cse | filecheck %s

// A tuple that is made and taken apart leaves nothing.
// CHECK-LABEL: func.func @tuple
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: return %[[Y]], %[[X]]
func.func @tuple(%x: tensor<3xf32>) -> tuple<tensor<3xf32>, tensor<3xf32>> {
  %t = stablehlo.tuple %x, %x : tuple<tensor<3xf32>, tensor<3xf32>>
  %a = stablehlo.get_tuple_element %t[1] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
  %b = stablehlo.sine %a : tensor<3xf32>
  %r = stablehlo.tuple %b, %a : tuple<tensor<3xf32>, tensor<3xf32>>
  return %r : tuple<tensor<3xf32>, tensor<3xf32>>
}

// A shape that is computed from constants is static.
// CHECK-LABEL: func.func @shape
// CHECK-SAME: -> tensor<2x3xf32>
// CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NOT: dynamic
func.func @shape(%x: tensor<3xf32>) -> tensor<?x?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
  %m = stablehlo.constant dense<2> : tensor<1xi32>
  %a = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %m, %a, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// What jax.export writes of a function of symbolic shapes, called with static ones: assertions that hold vanish, and
// types follow from operands, into reductions and loops.
// CHECK-LABEL: func.func @refined
// CHECK-NOT: ?
// CHECK-NOT: custom_call
// CHECK: %[[S:.*]] = stablehlo.reduce({{.*}}) {{.*}} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK: %[[W:.*]] = stablehlo.while({{.*}} = %[[S]]) : tensor<2xf32>
// CHECK: return %[[W]] : tensor<2xf32>
func.func @refined(%x: tensor<2x3xf32>) -> tensor<?xf32> {
  %y = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<?x3xf32>
  %n = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %holds = stablehlo.compare GE, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%holds, %n) {error_message = "{0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf32>, tensor<f32>) -> tensor<?xf32>
  %r = stablehlo.while(%a = %s) : tensor<?xf32>
  cond {
    %t = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
    %p = stablehlo.compare LT, %t, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.sine %a : tensor<?xf32>
    stablehlo.return %b : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// Routines that are written with others.
// CHECK-LABEL: func.func @products
// CHECK: %[[Q:.*]] = stablehlo.custom_call @lapack_dorgqr_ffi
// CHECK: stablehlo.dot_general %[[Q]], %arg2
// CHECK: stablehlo.custom_call @lapack_dgesdd_ffi(%arg2) {{.*}}mode = 83
func.func @products(%a: tensor<3x2xf64>, %taus: tensor<2xf64>, %c: tensor<3x2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>) {
  %p = stablehlo.custom_call @lapack_dormqr_ffi(%a, %taus, %c) {mhlo.backend_config = {left = true, transpose = false}} : (tensor<3x2xf64>, tensor<2xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
  %s:5 = stablehlo.custom_call @lapack_dgesvd_ffi(%c) {mhlo.backend_config = {mode = 83 : ui8}} : (tensor<3x2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>, tensor<3x2xf64>, tensor<2x2xf64>, tensor<i32>)
  return %p, %s#1 : tensor<3x2xf64>, tensor<2xf64>
}

// What an approximation may return is what a sort by its comparator puts first.
// CHECK-LABEL: func.func @largest
// CHECK: %[[S:.*]]:2 = "stablehlo.sort"(%{{.*}}, %{{.*}}) <{dimension = 0 : i64, is_stable = true}>
// CHECK: stablehlo.compare GT
// CHECK: stablehlo.slice %[[S]]#0 [0:2]
// CHECK: stablehlo.slice %[[S]]#1 [0:2]
// CHECK-NOT: func.func private
func.func @largest(%x: tensor<5xf32>, %i: tensor<5xi32>, %low: tensor<f32>, %none: tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %low, %none) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<5xf32>, tensor<5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}

// What torch-mlir writes: the end of a range as a ceiling, elements to be overwritten, weights as resources, and shapes
// of the type index.
// CHECK-LABEL: func.func @exported
// CHECK-DAG: stablehlo.constant dense<[1.000000e+00, 2.500000e+00]> : tensor<2xf32>
// CHECK-DAG: stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
// CHECK-DAG: stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-DAG: stablehlo.iota dim = 0 : tensor<3xi64>
// CHECK-NOT: dynamic
// CHECK: stablehlo.reshape %arg0 : (tensor<2xf32>) -> tensor<1x2xf32>
// CHECK-NOT: dynamic
// CHECK-NOT: dense_resource
func.func @exported(%x: tensor<2xf32>) -> (tensor<?xi64>, tensor<2xf32>, tensor<2xf32>, tensor<3xi1>, tensor<1x2xf32>) {
  %step = stablehlo.constant dense<2.0> : tensor<f64>
  %stop = stablehlo.constant dense<5.0> : tensor<f64>
  %ratio = stablehlo.divide %stop, %step : tensor<f64>
  %count = stablehlo.ceil %ratio : tensor<f64>
  %n = stablehlo.convert %count : (tensor<f64>) -> tensor<i64>
  %shape = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %range = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi64>) -> tensor<?xi64>
  %empty = tensor.empty() : tensor<2xf32>
  %weights = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  %mask = arith.constant dense_resource<mask> : tensor<3xi1>
  %sizes = arith.constant dense<[1, 2]> : tensor<2xindex>
  %row = stablehlo.dynamic_reshape %x, %sizes : (tensor<2xf32>, tensor<2xindex>) -> tensor<1x2xf32>
  return %range, %empty, %weights, %mask, %row : tensor<?xi64>, tensor<2xf32>, tensor<2xf32>, tensor<3xi1>, tensor<1x2xf32>
}

{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F00002040",
      mask: "0x0100000005"
    }
  }
#-}
