// RUN: nabla-opt %s --nabla-fold-reshapes | filecheck %s

// CHECK-LABEL: func.func @folded
// CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %arg0 : (tensor<6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: return %[[R]], %arg0
func.func @folded(%x: tensor<6xf32>) -> (tensor<2x3xf32>, tensor<6xf32>) {
  %0 = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.reshape %0 : (tensor<3x2xf32>) -> tensor<6xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<6xf32>
}
