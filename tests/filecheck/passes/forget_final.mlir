// RUN: nabla-opt %s --nabla-forget-final | filecheck %s

// What a pattern made is as any other operation once no pattern is left.
// CHECK-LABEL: func.func @made
// CHECK-NOT: nabla.final
// CHECK: return
func.func @made(%x: tensor<3xf32>) -> tensor<3xi32> {
  %0 = stablehlo.convert %x {nabla.final} : (tensor<3xf32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}
