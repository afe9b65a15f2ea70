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
