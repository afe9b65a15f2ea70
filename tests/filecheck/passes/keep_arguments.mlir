// RUN: nabla-opt %s --nabla-keep-arguments | filecheck %s

// The argument is the caller's also where no loop writes to it: it has a use at the end.
// CHECK-LABEL: func.func @written
// CHECK: %[[NEW:.*]] = stablehlo.dynamic_update_slice %arg0
// CHECK-NEXT: util.optimization_barrier %arg0
// CHECK-NEXT: return %[[NEW]]
func.func @written(%x: tensor<4x3xf32>, %v: tensor<1x3xf32>) -> tensor<4x3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %b = stablehlo.dynamic_update_slice %x, %v, %c, %c : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  return %b : tensor<4x3xf32>
}

// It was given away.
// CHECK-LABEL: func.func @donated
// CHECK-NOT: barrier
// CHECK: return
func.func @donated(%x: tensor<4x3xf32> {iree.abi.consume}, %v: tensor<1x3xf32>) -> tensor<4x3xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %b = stablehlo.dynamic_update_slice %x, %v, %c, %c : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  return %b : tensor<4x3xf32>
}
