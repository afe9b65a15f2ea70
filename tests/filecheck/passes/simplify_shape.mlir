// RUN: nabla-opt %s --nabla-simplify | filecheck %s
// One function for each pattern of passes/simplify/shape.py, with the name of the pattern.

// CHECK-LABEL: func.func @broadcast_noop
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-DAG: %[[C:.*]] = stablehlo.constant dense<2.0{{.*}}> : tensor<2x3xf32>
// CHECK-DAG: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<3xf32>) -> tensor<1x3xf32>
// CHECK: return %[[X]], %[[C]], %[[R]]
func.func @broadcast_noop(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<2x3xf32>, tensor<1x3xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<2x3xf32>, tensor<1x3xf32>
}

// CHECK-LABEL: func.func @broadcast_of_broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[X]], dims = [2] : (tensor<3xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT: return
func.func @broadcast_of_broadcast(%x: tensor<3xf32>) -> tensor<4x2x3xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @broadcast_of_reshape
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[X]], dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return
func.func @broadcast_of_reshape(%x: tensor<3xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.reshape %x : (tensor<3xf32>) -> tensor<3x1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @broadcast_of_iota
// CHECK-NEXT: %[[I:.*]] = stablehlo.iota dim = 1 : tensor<2x4x3xi32>
// CHECK-NEXT: return %[[I]]
func.func @broadcast_of_iota() -> tensor<2x4x3xi32> {
  %0 = stablehlo.iota dim = 0 : tensor<4x3xi32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<4x3xi32>) -> tensor<2x4x3xi32>
  return %1 : tensor<2x4x3xi32>
}

// CHECK-LABEL: func.func @transpose_noop
// CHECK-SAME: (%[[X:.*]]: tensor<2x1xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<2x1xf32>) -> tensor<1x2xf32>
// CHECK-NEXT: return %[[X]], %[[R]]
func.func @transpose_noop(%x: tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<1x2xf32>) {
  %0 = stablehlo.transpose %x, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x1xf32>) -> tensor<1x2xf32>
  return %0, %1 : tensor<2x1xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT: stablehlo.transpose %[[X]], dims = [2, 0, 1]
// CHECK-NEXT: return
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}

// CHECK-LABEL: func.func @transpose_of_broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[X]], dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return
func.func @transpose_of_broadcast(%x: tensor<3xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @reshape_noop
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-DAG: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-DAG: %[[B:.*]] = stablehlo.broadcast_in_dim %[[S]], dims = [] : (tensor<f32>) -> tensor<6xf32>
// CHECK: return %[[R]], %[[B]]
func.func @reshape_noop(%x: tensor<2x3xf32>, %s: tensor<f32>) -> (tensor<3x2xf32>, tensor<6xf32>) {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = stablehlo.reshape %0 : (tensor<6xf32>) -> tensor<3x2xf32>
  %2 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %3 = stablehlo.reshape %2 : (tensor<2x3xf32>) -> tensor<6xf32>
  return %1, %3 : tensor<3x2xf32>, tensor<6xf32>
}

// CHECK-LABEL: func.func @slice_noop
// CHECK-SAME: (%[[X:.*]]: tensor<10xf32>)
// CHECK-NEXT: %[[S:.*]] = stablehlo.slice %[[X]] [3:8:4]
// CHECK-NEXT: return %[[X]], %[[S]]
func.func @slice_noop(%x: tensor<10xf32>) -> (tensor<10xf32>, tensor<2xf32>) {
  %0 = stablehlo.slice %x [0:10] : (tensor<10xf32>) -> tensor<10xf32>
  %1 = stablehlo.slice %x [1:10:2] : (tensor<10xf32>) -> tensor<5xf32>
  %2 = stablehlo.slice %1 [1:5:2] : (tensor<5xf32>) -> tensor<2xf32>
  return %0, %2 : tensor<10xf32>, tensor<2xf32>
}

// Negative padding only cuts off: that is a slice.
// CHECK-LABEL: func.func @pad_noop
// CHECK-SAME: (%[[X:.*]]: tensor<5xf32>)
// CHECK-DAG: %[[ZEROS:.*]] = stablehlo.constant dense<0.0{{.*}}> : tensor<7xf32>
// CHECK-DAG: %[[S:.*]] = stablehlo.slice %[[X]] [1:4]
// CHECK-NEXT: return %[[X]], %[[S]], %[[ZEROS]]
func.func @pad_noop(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<3xf32>, tensor<7xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<5xf32>
  %0 = stablehlo.pad %x, %c, low = [0], high = [0], interior = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %1 = stablehlo.pad %x, %c, low = [-1], high = [-1], interior = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.pad %zeros, %c, low = [1], high = [1], interior = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<7xf32>
  return %0, %1, %2 : tensor<5xf32>, tensor<3xf32>, tensor<7xf32>
}

// A part of a concatenation, with what comes around the parts or not.
// CHECK-LABEL: func.func @slice_of_part
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>, %[[Y:.*]]: tensor<2x4xf32>)
// CHECK-DAG: %[[A:.*]] = stablehlo.slice %[[X]] [0:2, 0:3:2]
// CHECK-DAG: %[[B:.*]] = stablehlo.slice %[[Y]] [1:2, 1:3]
// CHECK-DAG: %[[C:.*]] = stablehlo.concatenate %[[X]], %[[Y]]
// CHECK-DAG: %[[D:.*]] = stablehlo.slice %[[C]] [0:2, 2:4]
// CHECK: return %[[Y]], %[[A]], %[[B]], %[[D]]
func.func @slice_of_part(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>) {
  %0 = stablehlo.concatenate %x, %y, dim = 1 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  %1 = stablehlo.slice %0 [0:2, 3:7] : (tensor<2x7xf32>) -> tensor<2x4xf32>
  %2 = stablehlo.slice %0 [0:2, 0:4:2] : (tensor<2x7xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.slice %0 [1:2, 4:6] : (tensor<2x7xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.slice %0 [0:2, 2:4] : (tensor<2x7xf32>) -> tensor<2x2xf32>
  return %1, %2, %3, %4 : tensor<2x4xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<2x2xf32>
}

// What was padded, and the padding alone; not both, nor what lies between the elements.
// CHECK-LABEL: func.func @slice_of_pad
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<f32>)
// CHECK-DAG: %[[A:.*]] = stablehlo.slice %[[X]] [1:3]
// CHECK-DAG: %[[B:.*]] = stablehlo.broadcast_in_dim %[[V]], dims = [] : (tensor<f32>) -> tensor<2xf32>
// CHECK-DAG: %[[P:.*]] = stablehlo.pad %[[X]], %[[V]], low = [2], high = [1], interior = [0]
// CHECK-DAG: %[[C:.*]] = stablehlo.slice %[[P]] [1:3]
// CHECK-DAG: %[[Q:.*]] = stablehlo.pad %[[X]], %[[V]], low = [2], high = [1], interior = [1]
// CHECK-DAG: %[[D:.*]] = stablehlo.slice %[[Q]] [0:2]
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
func.func @slice_of_pad(%x: tensor<4xf32>, %v: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = stablehlo.pad %x, %v, low = [2], high = [1], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = stablehlo.slice %0 [3:5] : (tensor<7xf32>) -> tensor<2xf32>
  %2 = stablehlo.slice %0 [0:2] : (tensor<7xf32>) -> tensor<2xf32>
  %3 = stablehlo.slice %0 [1:3] : (tensor<7xf32>) -> tensor<2xf32>
  %4 = stablehlo.pad %x, %v, low = [2], high = [1], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<10xf32>
  %5 = stablehlo.slice %4 [0:2] : (tensor<10xf32>) -> tensor<2xf32>
  return %1, %2, %3, %5 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @concatenate_one
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %{{.*}}: tensor<0xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @concatenate_one(%x: tensor<3xf32>, %empty: tensor<0xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.concatenate %x, dim = 0 : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.concatenate %empty, %x, dim = 0 : (tensor<0xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @reverse_noop
// CHECK-SAME: (%[[X:.*]]: tensor<1x3xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @reverse_noop(%x: tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>) {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<1x3xf32>
  %1 = stablehlo.reverse %x, dims = [1] : tensor<1x3xf32>
  %2 = stablehlo.reverse %1, dims = [1] : tensor<1x3xf32>
  return %0, %2 : tensor<1x3xf32>, tensor<1x3xf32>
}

// With a start value that is not neutral it is no reshape.
// CHECK-LABEL: func.func @reduce_unit_axes
// CHECK-SAME: (%[[X:.*]]: tensor<1x3xf32>)
// CHECK-DAG: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<1x3xf32>) -> tensor<3xf32>
// CHECK-DAG: %[[S:.*]] = stablehlo.reduce(%[[X]] init:
// CHECK: return %[[R]], %[[S]]
func.func @reduce_unit_axes(%x: tensor<1x3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<1x3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0]
    : (tensor<1x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// The sum of four copies is four times the value; before a full sum the order of the elements does not matter.
// CHECK-LABEL: func.func @sum_of_broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// CHECK-DAG: %[[FOUR:.*]] = stablehlo.constant dense<4.0{{.*}}> : tensor<3xf32>
// CHECK-DAG: %[[A:.*]] = stablehlo.multiply %[[X]], %[[FOUR]]
// CHECK-DAG: %[[B:.*]] = stablehlo.reduce(%[[Y]] init: {{.*}}) applies stablehlo.add across dimensions = [0, 1]
// CHECK: return %[[A]], %[[B]]
func.func @sum_of_broadcast(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.transpose %y, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<3x2xf32>, tensor<f32>) -> tensor<f32>
  return %1, %3 : tensor<3xf32>, tensor<f32>
}

// The sign of a sum is taken once.
// CHECK-LABEL: func.func @sum_of_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>)
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[X]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK-NEXT: %[[Y:.*]] = stablehlo.negate %[[SUM]] : tensor<3xf32>
// CHECK-NEXT: return %[[Y]]
func.func @sum_of_negated(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.negate %x : tensor<3x4xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32> loc("vjp(stablehlo.reduce)")
  return %1 : tensor<3xf32>
}

// Factors that are copied meet before they are.
// CHECK-LABEL: func.func @multiply_broadcasts
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<3xf32>, %[[Z:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[YZ:.*]] = stablehlo.multiply %[[Y]], %[[Z]] : tensor<3xf32>
// CHECK-NEXT: %[[COPIED:.*]] = stablehlo.broadcast_in_dim %[[YZ]], dims = [0]
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[X]], %[[COPIED]] : tensor<3x4xf32>
// CHECK-NEXT: return %[[P]]
func.func @multiply_broadcasts(%x: tensor<3x4xf32>, %y: tensor<3xf32>, %z: tensor<3xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.broadcast_in_dim %z, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %2 = stablehlo.multiply %x, %0 : tensor<3x4xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}

// What is copied is scaled before it is.
// CHECK-LABEL: func.func @scale_smaller
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK: %[[SCALED:.*]] = stablehlo.multiply %[[Y]], %{{.*}} : tensor<3xf32>
// CHECK-NEXT: %[[COPIED:.*]] = stablehlo.broadcast_in_dim %[[SCALED]], dims = [0]
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[X]], %[[COPIED]] : tensor<3x4xf32>
// CHECK-NEXT: return %[[P]]
func.func @scale_smaller(%x: tensor<3x4xf32>, %y: tensor<3xf32>) -> tensor<3x4xf32> {
  %c = stablehlo.constant dense<3.0> : tensor<3x4xf32>
  %0 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<3x4xf32>
  %2 = stablehlo.multiply %c, %1 : tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// So is its sign, unless it goes on to a sum, where it costs nothing.
// CHECK-LABEL: func.func @negate_smaller
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK: %[[NEGATED:.*]] = stablehlo.negate %[[Y]] : tensor<3xf32>
// CHECK-NEXT: %[[COPIED:.*]] = stablehlo.broadcast_in_dim %[[NEGATED]], dims = [0]
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[X]], %[[COPIED]] : tensor<3x4xf32>
// CHECK-NEXT: %[[EXP:.*]] = stablehlo.exponential %[[P]]
// CHECK: %[[Q:.*]] = stablehlo.multiply %[[X]], %{{.*}} : tensor<3x4xf32>
// CHECK-NEXT: %[[R:.*]] = stablehlo.subtract %[[EXP]], %[[Q]]
// CHECK-NEXT: return %[[R]]
func.func @negate_smaller(%x: tensor<3x4xf32>, %y: tensor<3xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<3x4xf32>
  %2 = stablehlo.negate %1 : tensor<3x4xf32>
  %3 = stablehlo.exponential %2 : tensor<3x4xf32>
  %4 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %5 = stablehlo.multiply %x, %4 : tensor<3x4xf32>
  %6 = stablehlo.negate %5 : tensor<3x4xf32>
  %7 = stablehlo.add %3, %6 : tensor<3x4xf32>
  return %7 : tensor<3x4xf32>
}

// Equal copies, and constants, meet before they are copied; an operand that is copied otherwise holds them.
// CHECK-LABEL: func.func @broadcast_last
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>, %[[Z:.*]]: tensor<4xf32>)
// CHECK: %[[NEGATED:.*]] = stablehlo.negate %[[X]] : tensor<3xf32>
// CHECK: %[[Q:.*]] = stablehlo.divide %[[NEGATED]], %[[Y]] : tensor<3xf32>
// CHECK-NEXT: %[[COPIED:.*]] = stablehlo.broadcast_in_dim %[[Q]], dims = [0]
// CHECK-NEXT: %[[OTHER:.*]] = stablehlo.broadcast_in_dim %[[Z]], dims = [1]
// CHECK-NEXT: %[[P:.*]] = stablehlo.add %[[COPIED]], %[[OTHER]] : tensor<3x4xf32>
// CHECK-NEXT: return %[[P]]
func.func @broadcast_last(%x: tensor<3xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.negate %0 : tensor<3x4xf32>
  %2 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %3 = stablehlo.divide %1, %2 : tensor<3x4xf32>
  %4 = stablehlo.broadcast_in_dim %z, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
  %5 = stablehlo.add %3, %4 : tensor<3x4xf32>
  return %5 : tensor<3x4xf32>
}

// A sum with a row among zeros touches that row alone.
// CHECK-LABEL: func.func @add_of_update
// CHECK-SAME: (%[[X:.*]]: tensor<9x4xf32>, %[[U:.*]]: tensor<1x4xf32>, %[[I:.*]]: tensor<i32>)
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[X]], %[[I]], %{{.*}}, sizes = [1, 4]
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[ROW]], %[[U]] : tensor<1x4xf32>
// CHECK-NEXT: %[[R:.*]] = stablehlo.dynamic_update_slice %[[X]], %[[SUM]], %[[I]]
// CHECK-NEXT: return %[[R]]
func.func @add_of_update(%x: tensor<9x4xf32>, %u: tensor<1x4xf32>, %i: tensor<i32>) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %zeros, %u, %i, %c0 : (tensor<9x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<9x4xf32>
  %1 = stablehlo.add %x, %0 : tensor<9x4xf32> loc("vjp(stablehlo.multiply)")
  return %1 : tensor<9x4xf32>
}

// A part of a splat is one, wherever it lies.
// CHECK-LABEL: func.func @slice_of_constant
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-NEXT: return %[[C]]
func.func @slice_of_constant(%i: tensor<i32>) -> tensor<2xf32> {
  %twos = stablehlo.constant dense<2.0> : tensor<9xf32>
  %0 = stablehlo.dynamic_slice %twos, %i, sizes = [2] : (tensor<9xf32>, tensor<i32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// What is left of a transpose after a reduction is smaller.
// CHECK-LABEL: func.func @reduce_of_transpose
// CHECK-SAME: (%[[X:.*]]: tensor<4x3x2xf32>)
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[X]] init: {{.*}}) applies stablehlo.maximum across dimensions = [1] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: stablehlo.transpose %[[S]], dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
func.func @reduce_of_transpose(%x: tensor<4x3x2xf32>) -> tensor<2x4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<4x3x2xf32>) -> tensor<2x3x4xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// Without elements it may start behind the end of the source, where no slice can.
// CHECK-LABEL: func.func @slice_of_slice_without_elements
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: stablehlo.slice %[[X]] [0:0
// CHECK-NEXT: return
func.func @slice_of_slice_without_elements(%x: tensor<4xf32>) -> tensor<0xf32> {
  %0 = stablehlo.slice %x [0:4:5] : (tensor<4xf32>) -> tensor<1xf32>
  %1 = stablehlo.slice %0 [1:1] : (tensor<1xf32>) -> tensor<0xf32>
  return %1 : tensor<0xf32>
}
