// RUN: nabla-opt %s --nabla-simplify | filecheck %s
// One function for each pattern of passes/simplify/masks.py, with the name of the pattern.

// CHECK-LABEL: func.func @select_of_not
// CHECK-SAME: (%[[P:.*]]: tensor<3xi1>, %[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<3xf32>)
// CHECK-NEXT: stablehlo.select %[[P]], %[[B]], %[[A]]
func.func @select_of_not(%p: tensor<3xi1>, %a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.not %p : tensor<3xi1>
  %1 = stablehlo.select %0, %a, %b : tensor<3xi1>, tensor<3xf32>
  return %1 : tensor<3xf32>
}

// One of two comparisons of integers always holds, whichever is first.
// CHECK-LABEL: func.func @or_of_opposites
// CHECK-SAME: (%[[X:.*]]: tensor<3xi32>
// CHECK: %[[T:.*]] = stablehlo.constant dense<true> : tensor<3xi1>
// CHECK: %[[D:.*]] = stablehlo.or
// CHECK: return %[[T]], %[[T]], %[[D]]
func.func @or_of_opposites(%x: tensor<3xi32>, %y: tensor<3xi32>) -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>) {
  %0 = stablehlo.compare GE, %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %1 = stablehlo.compare LT, %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %2 = stablehlo.compare GE, %y, %x : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %3 = stablehlo.compare GT, %y, %x : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %4 = stablehlo.or %0, %1 : tensor<3xi1>
  %5 = stablehlo.or %0, %2 : tensor<3xi1>
  %6 = stablehlo.or %1, %3 : tensor<3xi1>
  return %4, %5, %6 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>
}

// Of floats neither may hold.
// CHECK-LABEL: func.func @or_of_opposites_of_floats
// CHECK: stablehlo.or
func.func @or_of_opposites_of_floats(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xi1> {
  %0 = stablehlo.compare GE, %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %1 = stablehlo.compare LT, %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %2 = stablehlo.or %0, %1 : tensor<3xi1>
  return %2 : tensor<3xi1>
}

// CHECK-LABEL: func.func @and_of_opposites
// CHECK: %[[F:.*]] = stablehlo.constant dense<false> : tensor<3xi1>
// CHECK: return %[[F]]
func.func @and_of_opposites(%x: tensor<3xi32>, %y: tensor<3xi32>) -> tensor<3xi1> {
  %0 = stablehlo.compare GT, %x, %y : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %1 = stablehlo.compare GE, %y, %x : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %2 = stablehlo.and %0, %1 : tensor<3xi1>
  return %2 : tensor<3xi1>
}

// CHECK-LABEL: func.func @transpose_of_counts
// CHECK-DAG: %[[I:.*]] = stablehlo.iota dim = 0 : tensor<4x3xi32>
// CHECK-DAG: %[[J:.*]] = stablehlo.iota dim = 1 : tensor<4x3xi32>
// CHECK: stablehlo.compare GE, %[[J]], %[[I]]
// CHECK-NOT: stablehlo.transpose
func.func @transpose_of_counts() -> tensor<4x3xi1> {
  %0 = stablehlo.iota dim = 0 : tensor<3x4xi32>
  %1 = stablehlo.iota dim = 1 : tensor<3x4xi32>
  %2 = stablehlo.compare GE, %0, %1 : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<3x4xi1>) -> tensor<4x3xi1>
  return %3 : tensor<4x3xi1>
}

// CHECK-LABEL: func.func @any_of_not
// CHECK: %[[ALL:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.and
// CHECK-NEXT: stablehlo.not %[[ALL]] : tensor<4xi1>
func.func @any_of_not(%p: tensor<3x4xi1>) -> tensor<4xi1> {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.not %p : tensor<3x4xi1>
  %1 = stablehlo.reduce(%0 init: %f) applies stablehlo.or across dimensions = [0] : (tensor<3x4xi1>, tensor<i1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}

// CHECK-LABEL: func.func @any_of_copies
// CHECK-SAME: (%[[P:.*]]: tensor<3x4xi1>, %[[Q:.*]]: tensor<4xi1>)
// CHECK: %[[ANY:.*]] = stablehlo.reduce(%[[P]] init: %{{.*}}) applies stablehlo.or
// CHECK-NEXT: %[[R:.*]] = stablehlo.or %[[ANY]], %[[Q]] : tensor<4xi1>
// CHECK-NEXT: return %[[R]], %[[Q]]
func.func @any_of_copies(%p: tensor<3x4xi1>, %q: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xi1>) {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %0 = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<4xi1>) -> tensor<3x4xi1>
  %1 = stablehlo.or %p, %0 : tensor<3x4xi1>
  %2 = stablehlo.reduce(%1 init: %f) applies stablehlo.or across dimensions = [0] : (tensor<3x4xi1>, tensor<i1>) -> tensor<4xi1>
  %3 = stablehlo.reduce(%0 init: %t) applies stablehlo.and across dimensions = [0] : (tensor<3x4xi1>, tensor<i1>) -> tensor<4xi1>
  return %2, %3 : tensor<4xi1>, tensor<4xi1>
}

// Of no copies none is true.
// CHECK-LABEL: func.func @any_of_no_copies
// CHECK: stablehlo.reduce
func.func @any_of_no_copies(%q: tensor<4xi1>) -> tensor<4xi1> {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<4xi1>) -> tensor<0x4xi1>
  %1 = stablehlo.reduce(%0 init: %f) applies stablehlo.or across dimensions = [0] : (tensor<0x4xi1>, tensor<i1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}

// CHECK-LABEL: func.func @any_of_constant
// CHECK: %[[T:.*]] = stablehlo.constant dense<true> : tensor<4xi1>
// CHECK: return %[[T]]
func.func @any_of_constant() -> tensor<4xi1> {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %t = stablehlo.constant dense<true> : tensor<3x4xi1>
  %0 = stablehlo.reduce(%t init: %f) applies stablehlo.or across dimensions = [0] : (tensor<3x4xi1>, tensor<i1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
