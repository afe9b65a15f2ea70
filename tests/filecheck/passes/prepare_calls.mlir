// RUN: nabla-opt %s --nabla-prepare-calls | filecheck %s
// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-prepare-calls,inline{default-pipeline=},symbol-dce)' | filecheck %s --check-prefix=INLINED

// A function that ends as a region does returns as a function does.
// CHECK-LABEL: func.func @returned
// CHECK: return %{{.*}} : tensor<3xf32>
func.func @returned(%x: tensor<3xf32>) -> tensor<3xf32> {
  stablehlo.return %x : tensor<3xf32>
}

// A composite is a call of its decomposition, which the inliner puts in its place.
// CHECK-LABEL: func.func @composed
// CHECK-NEXT: %[[Y:.*]] = call @square(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: return %[[Y]]
// INLINED-LABEL: func.func @composed
// INLINED-NEXT: stablehlo.multiply
// INLINED-NEXT: return
// INLINED-NOT: func.func
func.func @composed(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @square(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
