// RUN: nabla-opt %s --nabla-one-device | filecheck %s

// On one device a gather from all of them is what that device has.
// CHECK-LABEL: func.func @gathered
// CHECK-NEXT: return %arg0
func.func @gathered(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The device is the first one, and where an array lies says nothing.
// CHECK-LABEL: func.func @place
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<ui32>
// CHECK-NEXT: return %[[ZERO]], %arg0
func.func @place(%x: tensor<4xf32>) -> (tensor<ui32>, tensor<4xf32>) {
  %0 = stablehlo.replica_id : tensor<ui32>
  %1 = stablehlo.custom_call @Sharding(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<ui32>, tensor<4xf32>
}
