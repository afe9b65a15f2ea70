// RUN: nabla-opt %s --nabla-legalize-math | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-legalize-math=target=vulkan | filecheck %s --check-prefixes=CHECK,VULKAN

// A cube is two products: IREE would compute exp(3 log x), which is NaN for a negative x.
// CHECK-LABEL: func.func @cube
// CHECK-SAME: (%[[X:.*]]: tensor<4xf64>)
// CHECK-NOT: stablehlo.power
// CHECK: %[[SQUARE:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK: stablehlo.multiply %[[SQUARE]], %[[X]]
// CHECK-NEXT: return
func.func @cube(%x: tensor<4xf64>) -> tensor<4xf64> {
  %n = stablehlo.constant dense<3.0> : tensor<4xf64>
  %r = stablehlo.power %x, %n : tensor<4xf64>
  return %r : tensor<4xf64>
}

// The f32 exponential of the CPU is good; that of Vulkan is 20 ulp off and is replaced.
// CHECK-LABEL: func.func @exponential
// CPU-NEXT: stablehlo.exponential
// VULKAN-NOT: stablehlo.exponential
// CHECK: return
func.func @exponential(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.exponential %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
