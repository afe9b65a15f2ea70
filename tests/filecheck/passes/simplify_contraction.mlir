// RUN: nabla-opt %s --nabla-simplify | filecheck %s
// One function for each pattern of passes/simplify/contraction.py, with the name of the pattern.

// A transposed factor is read as it stands.
// CHECK-LABEL: func.func @dot_of_transpose
// CHECK-SAME: (%[[A:.*]]: tensor<3x2xf32>, %[[B:.*]]: tensor<4x3xf32>)
// CHECK-NEXT: stablehlo.dot_general %[[A]], %[[B]], contracting_dims = [0] x [1]
// CHECK-NEXT: return
func.func @dot_of_transpose(%a: tensor<3x2xf32>, %b: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// Not if the free axes would come out in another order.
// CHECK-LABEL: func.func @dot_of_transpose_of_free_axes
// CHECK: stablehlo.transpose
// CHECK: stablehlo.dot_general
func.func @dot_of_transpose_of_free_axes(%a: tensor<2x5x3xf32>, %b: tensor<3xf32>) -> tensor<5x2xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<2x5x3xf32>) -> tensor<5x2x3xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [2] x [0] : (tensor<5x2x3xf32>, tensor<3xf32>) -> tensor<5x2xf32>
  return %1 : tensor<5x2xf32>
}

// A transposed product is the product of the exchanged factors.
// CHECK-LABEL: func.func @transpose_of_dot
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: stablehlo.dot_general %[[B]], %[[A]], contracting_dims = [0] x [1] : {{.*}} -> tensor<4x2xf32>
// CHECK-NEXT: return
func.func @transpose_of_dot(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// A factor that is copied along a batching axis is used once: the axis becomes free in the other factor.
// CHECK-LABEL: func.func @dot_of_broadcast
// CHECK-SAME: (%[[X:.*]]: tensor<5x3xf32>, %[[W:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: stablehlo.dot_general %[[X]], %[[W]], contracting_dims = [1] x [0] : {{.*}} -> tensor<5x4xf32>
// CHECK-NEXT: return
func.func @dot_of_broadcast(%x: tensor<5x3xf32>, %w: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %0 = stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<3x4xf32>) -> tensor<5x3x4xf32>
  %1 = stablehlo.dot_general %x, %0, batching_dims = [0] x [0], contracting_dims = [1] x [1]
    : (tensor<5x3xf32>, tensor<5x3x4xf32>) -> tensor<5x4xf32>
  return %1 : tensor<5x4xf32>
}

// With one constant number for each entry it is elementwise.
// CHECK-LABEL: func.func @dot_of_constant
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[TWO:.*]] = stablehlo.constant dense<2.0{{.*}}> : tensor<2x3xf32>
// CHECK-NEXT: %[[Y:.*]] = stablehlo.multiply %[[X]], %[[TWO]]
// CHECK-NEXT: %[[MOVED:.*]] = stablehlo.transpose %[[Y]], dims = [1, 0]
// CHECK-NEXT: %[[UNIT:.*]] = stablehlo.reshape %[[MOVED]] : (tensor<3x2xf32>) -> tensor<3x1x2xf32>
// CHECK-NEXT: return %[[X]], %[[Y]], %[[UNIT]]
func.func @dot_of_constant(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x1x2xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %twos = stablehlo.constant dense<2.0> : tensor<3x1xf32>
  %0 = stablehlo.dot_general %one, %x, contracting_dims = [] x [] : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.dot_general %x, %two, contracting_dims = [] x [] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.dot_general %twos, %x, batching_dims = [0] x [1], contracting_dims = [] x []
    : (tensor<3x1xf32>, tensor<2x3xf32>) -> tensor<3x1x2xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x1x2xf32>
}

// What is copied along a free axis is multiplied once, and the product is copied.
// CHECK-LABEL: func.func @dot_of_copies
// CHECK-SAME: (%[[A:.*]]: tensor<2x3x4xf32>, %[[V:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[A]], %[[V]], batching_dims = [0] x [0], contracting_dims = [2] x [1] : {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[R]], dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x5xf32>
func.func @dot_of_copies(%a: tensor<2x3x4xf32>, %v: tensor<2x4xf32>) -> tensor<2x3x5xf32> {
  %0 = stablehlo.broadcast_in_dim %v, dims = [1, 2] : (tensor<2x4xf32>) -> tensor<5x2x4xf32>
  %1 = stablehlo.dot_general %a, %0, batching_dims = [0] x [1], contracting_dims = [2] x [2]
    : (tensor<2x3x4xf32>, tensor<5x2x4xf32>) -> tensor<2x3x5xf32>
  return %1 : tensor<2x3x5xf32>
}

// What is copied along a contracted axis multiplies a sum.
// CHECK-LABEL: func.func @dot_of_copies_of_terms
// CHECK-SAME: (%[[A:.*]]: tensor<6x3xf32>, %[[V:.*]]: tensor<5xf32>)
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[A]] init: {{.*}}) applies stablehlo.add across dimensions = [0] : {{.*}} -> tensor<3xf32>
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[V]], %[[S]], contracting_dims = [] x [] : {{.*}} -> tensor<5x3xf32>
// CHECK-NEXT: return %[[R]]
func.func @dot_of_copies_of_terms(%a: tensor<6x3xf32>, %v: tensor<5xf32>) -> tensor<5x3xf32> {
  %0 = stablehlo.broadcast_in_dim %v, dims = [0] : (tensor<5xf32>) -> tensor<5x6xf32>
  %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0] : (tensor<5x6xf32>, tensor<6x3xf32>) -> tensor<5x3xf32>
  return %1 : tensor<5x3xf32>
}

// Not in half precision, in which a sum is less precise than a product.
// CHECK-LABEL: func.func @dot_of_copies_of_halves
// CHECK: stablehlo.dot_general {{.*}} : (tensor<5x6xf16>, tensor<6x3xf16>) -> tensor<5x3xf16>
func.func @dot_of_copies_of_halves(%a: tensor<6x3xf16>, %v: tensor<5xf16>) -> tensor<5x3xf16> {
  %0 = stablehlo.broadcast_in_dim %v, dims = [0] : (tensor<5xf16>) -> tensor<5x6xf16>
  %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0] : (tensor<5x6xf16>, tensor<6x3xf16>) -> tensor<5x3xf16>
  return %1 : tensor<5x3xf16>
}

// The sum of a product along free axes of both factors is a product of sums.
// CHECK-LABEL: func.func @sum_of_product
// CHECK-SAME: (%[[A:.*]]: tensor<2x3x4xf32>, %[[B:.*]]: tensor<2x4x5xf32>)
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[A]] init: {{.*}}) applies stablehlo.add across dimensions = [1] : {{.*}} -> tensor<2x4xf32>
// CHECK: %[[T:.*]] = stablehlo.reduce(%[[B]] init: {{.*}}) applies stablehlo.add across dimensions = [2] : {{.*}} -> tensor<2x4xf32>
// CHECK: %[[R:.*]] = stablehlo.dot_general %[[S]], %[[T]], batching_dims = [0] x [0], contracting_dims = [1] x [1] : {{.*}} -> tensor<2xf32>
// CHECK-NEXT: return %[[R]]
func.func @sum_of_product(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// The sum of a sum of products is the sum of their sums. A product that is needed whole stays.
// CHECK-LABEL: func.func @sum_of_product_and_product
// CHECK-SAME: (%[[A:.*]]: tensor<6x4xf32>, %[[B:.*]]: tensor<4x5xf32>, %[[C:.*]]: tensor<4x5xf32>)
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[A]] init: {{.*}}) applies stablehlo.add across dimensions = [0] : {{.*}} -> tensor<4xf32>
// CHECK-COUNT-2: stablehlo.dot_general {{.*}} -> tensor<5xf32>
// CHECK-NOT: stablehlo.dot_general {{.*}} -> tensor<6x5xf32>
// CHECK: return
func.func @sum_of_product_and_product(%a: tensor<6x4xf32>, %b: tensor<4x5xf32>, %c: tensor<4x5xf32>) -> tensor<5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %1 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %2 = stablehlo.add %0, %1 : tensor<6x5xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %3 : tensor<5xf32>
}

// CHECK-LABEL: func.func @sum_of_needed_product
// CHECK: %[[R:.*]] = stablehlo.dot_general {{.*}} -> tensor<6x5xf32>
// CHECK: stablehlo.reduce(%[[R]]
func.func @sum_of_needed_product(%a: tensor<6x4xf32>, %b: tensor<4x5xf32>) -> (tensor<6x5xf32>, tensor<5xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %0, %1 : tensor<6x5xf32>, tensor<5xf32>
}
