// RUN: nabla-opt %s --nabla-legalize-types | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-legalize-types=target=vulkan | filecheck %s --check-prefixes=CHECK,VULKAN

// IREE adds i1 modulo 2; StableHLO defines it as or.
// CHECK-LABEL: func.func @add_of_truth_values
// CHECK-NEXT: stablehlo.or
// CHECK-NEXT: return
func.func @add_of_truth_values(%p: tensor<3xi1>, %q: tensor<3xi1>) -> tensor<3xi1> {
  %0 = stablehlo.add %p, %q : tensor<3xi1>
  return %0 : tensor<3xi1>
}

// From float to integer the value is clamped first, and NaN becomes 0.
// CHECK-LABEL: func.func @saturating_conversion
// CHECK: stablehlo.minimum
// CHECK: stablehlo.maximum
// CHECK: stablehlo.convert {{.*}} : (tensor<3xf32>) -> tensor<3xi32>
// CHECK: stablehlo.compare NE
// CHECK: stablehlo.select
// CHECK: return
func.func @saturating_conversion(%x: tensor<3xf32>) -> tensor<3xi32> {
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// The body of a reduction is legalised as well.
// CHECK-LABEL: func.func @in_a_body
// CHECK-NOT: stablehlo.add {{.*}}i1
// CHECK: return
func.func @in_a_body(%p: tensor<3xi1>) -> tensor<i1> {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.reduce(%p init: %false) across dimensions = [0] : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
    reducer(%a: tensor<i1>, %b: tensor<i1>) {
      %1 = stablehlo.add %a, %b : tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }
  return %0 : tensor<i1>
}

// The host has no arithmetic of unsigned types: a scalar becomes unsigned by its bits.
// CHECK-LABEL: func.func @unsigned_counter
// CHECK: %[[WIDE:.*]] = stablehlo.convert %{{.*}} : (tensor<i32>) -> tensor<i64>
// CHECK-NEXT: stablehlo.bitcast_convert %[[WIDE]] : (tensor<i64>) -> tensor<ui64>
func.func @unsigned_counter(%i: tensor<i32>) -> tensor<ui64> {
  %0 = stablehlo.convert %i : (tensor<i32>) -> tensor<ui64>
  return %0 : tensor<ui64>
}

// For Vulkan a reversed tensor is made on its own, and truth values are chosen between, not converted.
// CHECK-LABEL: func.func @reversed_truth
// VULKAN: %[[TURNED:.*]] = stablehlo.reverse
// VULKAN-NEXT: iree_tensor_ext.compute_barrier.start %[[TURNED]]
// VULKAN: stablehlo.select
// CPU: stablehlo.select
func.func @reversed_truth(%x: tensor<3xi1>) -> tensor<3xf32> {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<3xi1>
  %1 = stablehlo.convert %0 : (tensor<3xi1>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
