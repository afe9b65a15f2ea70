// RUN: nabla-opt %s --nabla-legalize-products | filecheck %s

// A vector times the columns of a matrix stands before it: the other order makes IREE transpose the matrix.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[U:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[U]], %[[A]], contracting_dims = [0] x [0]
// CHECK-NEXT: return %[[R]]
func.func @columns(%a: tensor<2x3xf32>, %u: tensor<2xf32>) -> tensor<3xf32> {
  %0 = stablehlo.dot_general %a, %u, contracting_dims = [0] x [0] : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[U:.*]]: tensor<3xf32>, %[[A:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.dot_general %[[A]], %[[U]], contracting_dims = [1] x [0]
// CHECK-NEXT: return %[[R]]
func.func @rows(%u: tensor<3xf32>, %a: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = stablehlo.dot_general %u, %a, contracting_dims = [0] x [1] : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// What IREE does right is left alone.
// CHECK-LABEL: func.func @right
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NEXT: stablehlo.multiply
// CHECK-NEXT: return
func.func @right(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// A product of two numbers is one: IREE refuses that of a narrow one with itself.
// CHECK-LABEL: func.func @numbers
// CHECK-SAME: (%[[X:.*]]: tensor<1x1xbf16>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.convert %[[X]]
// CHECK-NEXT: %[[U:.*]] = stablehlo.reshape %[[Y]]
// CHECK: stablehlo.multiply %{{.*}} : tensor<1xf32>
// CHECK-NEXT: return
func.func @numbers(%x: tensor<1x1xbf16>) -> tensor<1xf32> {
  %0 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<1x1xbf16>, tensor<1x1xbf16>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
