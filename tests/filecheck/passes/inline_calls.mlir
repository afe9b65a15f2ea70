// RUN: nabla-opt %s --nabla-inline-calls | filecheck %s

// A function that ends as a region does returns as a function does.
// CHECK-LABEL: func.func @returned
// CHECK: return %{{.*}} : tensor<3xf32>
func.func @returned(%x: tensor<3xf32>) -> tensor<3xf32> {
  stablehlo.return %x : tensor<3xf32>
}

// A composite is a call of its decomposition; the private function goes.
// CHECK-LABEL: func.func @composed
// CHECK-NEXT: %[[S:.*]] = stablehlo.multiply
// CHECK-NEXT: %[[A:.*]] = stablehlo.add %[[S]]
// CHECK-NEXT: return %[[A]]
// CHECK-NOT: func.func private
func.func @composed(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @plus(%0, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @square(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @plus(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}
