// RUN: nabla-opt %s --nabla-remove-stop-gradient | filecheck %s

// Once every derivative has been expanded it is the identity.
// CHECK-LABEL: func.func @identity
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @identity(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "ad.stop_gradient"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "ad.stop_gradient"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.sine %1 : tensor<3xf32>
  return %0, %2 : tensor<3xf32>, tensor<3xf32>
}

// In the body of a loop too.
// CHECK-LABEL: func.func @loop
// CHECK-NOT: ad.stop_gradient
// CHECK: return
func.func @loop(%x: tensor<i1>) -> tensor<i1> {
  %0 = stablehlo.while(%a = %x) : tensor<i1>
    cond {
      stablehlo.return %a : tensor<i1>
    } do {
      %1 = "ad.stop_gradient"(%a) : (tensor<i1>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }
  return %0 : tensor<i1>
}
