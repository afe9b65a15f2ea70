// RUN: nabla-opt %s --my-double-negation --nabla-dce --check-values | filecheck %s
// RUN: nabla-opt %s --my-double-negation --run --entry=twice --input='[1, -2, 3]' | filecheck %s --check-prefix=VALUES
// RUN: nabla-opt %s --verify-diagnostics --split-input-file

// Both negations go.
// CHECK-LABEL: func.func @twice
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]]
// VALUES: twice 0: float32[3] = [1.0, -2.0, 3.0]
func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// One of three stays.
// CHECK-LABEL: func.func @thrice
// CHECK-COUNT-1: stablehlo.negate
// CHECK-NOT: stablehlo.negate
func.func @thrice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  %2 = stablehlo.negate %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}
