// RUN: nabla-opt %s --nabla-separate-updates | filecheck %s

// A row becomes a column of the same array: it is made before it is written. What replaces its own old value is not.
// CHECK-LABEL: func.func @turned
// CHECK: %[[COLUMN:.*]] = stablehlo.reshape
// CHECK-NEXT: %[[MADE:.*]] = stablehlo.optimization_barrier %[[COLUMN]]
// CHECK-NEXT: stablehlo.dynamic_update_slice %{{.*}}, %[[MADE]]
// CHECK: %[[ROW:.*]] = stablehlo.add
// CHECK-NEXT: stablehlo.dynamic_update_slice %{{.*}}, %[[ROW]]
func.func @turned(%x: tensor<3x3xf32>, %v: tensor<1x3xf32>) -> tensor<3x3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.sine %x : tensor<3x3xf32>
  %r = stablehlo.slice %y [1:2, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
  %u = stablehlo.reshape %r : (tensor<1x3xf32>) -> tensor<3x1xf32>
  %z = stablehlo.dynamic_update_slice %y, %u, %c, %c : (tensor<3x3xf32>, tensor<3x1xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
  %o = stablehlo.slice %z [0:1, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
  %a = stablehlo.add %o, %v : tensor<1x3xf32>
  %w = stablehlo.dynamic_update_slice %z, %a, %c, %c : (tensor<3x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
  return %w : tensor<3x3xf32>
}

// A row that replaces itself, and is read by something else as well: that may come after it has been overwritten.
// CHECK-LABEL: func.func @read_twice
// CHECK: %[[SQUARE:.*]] = stablehlo.multiply
// CHECK: %[[MADE:.*]] = stablehlo.optimization_barrier %[[SQUARE]]
// CHECK-NEXT: stablehlo.dynamic_update_slice %{{.*}}, %[[MADE]]
func.func @read_twice(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<1x3xf32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.sine %x : tensor<3x3xf32>
  %r = stablehlo.slice %y [0:1, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
  %s = stablehlo.multiply %r, %r : tensor<1x3xf32>
  %t = stablehlo.add %r, %r : tensor<1x3xf32>
  %z = stablehlo.dynamic_update_slice %y, %s, %c, %c : (tensor<3x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x3xf32>
  return %z, %t : tensor<3x3xf32>, tensor<1x3xf32>
}

// An array that is added to itself: a barrier would return the buffer that is written, so the update is a copy.
// CHECK-LABEL: func.func @added_to_itself
// CHECK: %[[Y:.*]] = stablehlo.sine
// CHECK: %[[COPY:.*]] = stablehlo.or
// CHECK: %[[SAME:.*]] = stablehlo.bitcast_convert %[[COPY]]
// CHECK: "stablehlo.scatter"(%[[Y]], %arg1, %[[SAME]])
func.func @added_to_itself(%x: tensor<2xf32>, %i: tensor<2x1xi32>) -> tensor<2xf32> {
  %y = stablehlo.sine %x : tensor<2xf32>
  %z = "stablehlo.scatter"(%y, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}
