// RUN: nabla-opt %s --nabla-running-as-kernels | filecheck %s

// What is added to itself, shifted by 1, 2, 4, 8 and 16, is a running sum; shifted to the front it runs from the end.
// CHECK: hal.executable.source private @[[KERNEL:running_addf_300x17x1_f32]]
// CHECK: hal.executable.source private @[[BACK:running_addf_reversed_300x17x1_f32]]
// CHECK-LABEL: func.func @sums
// CHECK: flow.dispatch @[[KERNEL]]::@[[KERNEL]](%{{.*}}) : (tensor<300x17x1xf32>) -> tensor<300x17x1xf32>
// CHECK: flow.dispatch @[[BACK]]::@[[BACK]]
// CHECK-NOT: stablehlo.pad
func.func @sums(%x: tensor<300x17xf32>) -> tensor<300x17xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p0 = stablehlo.pad %x, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %0 = stablehlo.add %x, %p0 : tensor<300x17xf32>
  %p1 = stablehlo.pad %0, %z, low = [0, 2], high = [0, -2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %1 = stablehlo.add %0, %p1 : tensor<300x17xf32>
  %p2 = stablehlo.pad %1, %z, low = [0, 4], high = [0, -4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %2 = stablehlo.add %1, %p2 : tensor<300x17xf32>
  %p3 = stablehlo.pad %2, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %3 = stablehlo.add %2, %p3 : tensor<300x17xf32>
  %p4 = stablehlo.pad %3, %z, low = [0, 16], high = [0, -16], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %4 = stablehlo.add %3, %p4 : tensor<300x17xf32>
  %q4 = stablehlo.pad %4, %z, low = [0, -16], high = [0, 16], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %5 = stablehlo.add %4, %q4 : tensor<300x17xf32>
  %q3 = stablehlo.pad %5, %z, low = [0, -8], high = [0, 8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %6 = stablehlo.add %5, %q3 : tensor<300x17xf32>
  %q2 = stablehlo.pad %6, %z, low = [0, -4], high = [0, 4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %7 = stablehlo.add %6, %q2 : tensor<300x17xf32>
  %q1 = stablehlo.pad %7, %z, low = [0, -2], high = [0, 2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %8 = stablehlo.add %7, %q1 : tensor<300x17xf32>
  %q0 = stablehlo.pad %8, %z, low = [0, -1], high = [0, 1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %9 = stablehlo.add %q0, %8 : tensor<300x17xf32>
  return %9 : tensor<300x17xf32>
}
