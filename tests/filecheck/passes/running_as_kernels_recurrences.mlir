// RUN: nabla-opt %s --nabla-running-as-kernels | filecheck %s

// What is added to itself, shifted by 1, 2, 4, 8 and 16 and times products of as many factors, is a linear recurrence.
// CHECK-LABEL: func.func @recurrence
// CHECK: flow.dispatch @recurrence_300x17x1_f32::@recurrence_300x17x1_f32(%{{.*}}, %{{.*}}) : (tensor<300x17x1xf32>, tensor<300x17x1xf32>) -> tensor<300x17x1xf32>
// CHECK-NOT: stablehlo.pad
func.func @recurrence(%x: tensor<300x17xf32>, %y: tensor<300x17xf32>) -> tensor<300x17xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p0 = stablehlo.pad %y, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m0 = stablehlo.multiply %x, %p0 : tensor<300x17xf32>
  %b0 = stablehlo.add %m0, %y : tensor<300x17xf32>
  %q0 = stablehlo.pad %x, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a0 = stablehlo.multiply %q0, %x : tensor<300x17xf32>
  %p1 = stablehlo.pad %b0, %z, low = [0, 2], high = [0, -2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m1 = stablehlo.multiply %a0, %p1 : tensor<300x17xf32>
  %b1 = stablehlo.add %b0, %m1 : tensor<300x17xf32>
  %q1 = stablehlo.pad %a0, %z, low = [0, 2], high = [0, -2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a1 = stablehlo.multiply %q1, %a0 : tensor<300x17xf32>
  %p2 = stablehlo.pad %b1, %z, low = [0, 4], high = [0, -4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m2 = stablehlo.multiply %a1, %p2 : tensor<300x17xf32>
  %b2 = stablehlo.add %m2, %b1 : tensor<300x17xf32>
  %q2 = stablehlo.pad %a1, %z, low = [0, 4], high = [0, -4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a2 = stablehlo.multiply %q2, %a1 : tensor<300x17xf32>
  %p3 = stablehlo.pad %b2, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m3 = stablehlo.multiply %a2, %p3 : tensor<300x17xf32>
  %b3 = stablehlo.add %b2, %m3 : tensor<300x17xf32>
  %q3 = stablehlo.pad %a2, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a3 = stablehlo.multiply %q3, %a2 : tensor<300x17xf32>
  %p4 = stablehlo.pad %b3, %z, low = [0, 16], high = [0, -16], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m4 = stablehlo.multiply %a3, %p4 : tensor<300x17xf32>
  %b4 = stablehlo.add %m4, %b3 : tensor<300x17xf32>
  return %b4 : tensor<300x17xf32>
}

// The transposed one runs from the end, with the factors of the elements behind; what is added may be taken away negated.
// CHECK-LABEL: func.func @transposed
// CHECK: flow.dispatch @recurrence_reversed_late_300x17x1_f32::@recurrence_reversed_late_300x17x1_f32
func.func @transposed(%x: tensor<300x17xf32>, %y: tensor<300x17xf32>) -> tensor<300x17xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %l = stablehlo.pad %x, %z, low = [0, -1], high = [0, 1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %n = stablehlo.negate %y : tensor<300x17xf32>
  %p0 = stablehlo.pad %n, %z, low = [0, -1], high = [0, 1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m0 = stablehlo.multiply %l, %p0 : tensor<300x17xf32>
  %b0 = stablehlo.subtract %m0, %y : tensor<300x17xf32>
  %q0 = stablehlo.pad %l, %z, low = [0, -1], high = [0, 1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a0 = stablehlo.multiply %q0, %l : tensor<300x17xf32>
  %p1 = stablehlo.pad %b0, %z, low = [0, -2], high = [0, 2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m1 = stablehlo.multiply %a0, %p1 : tensor<300x17xf32>
  %b1 = stablehlo.add %b0, %m1 : tensor<300x17xf32>
  %q1 = stablehlo.pad %a0, %z, low = [0, -2], high = [0, 2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a1 = stablehlo.multiply %q1, %a0 : tensor<300x17xf32>
  %p2 = stablehlo.pad %b1, %z, low = [0, -4], high = [0, 4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m2 = stablehlo.multiply %a1, %p2 : tensor<300x17xf32>
  %b2 = stablehlo.add %m2, %b1 : tensor<300x17xf32>
  %q2 = stablehlo.pad %a1, %z, low = [0, -4], high = [0, 4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a2 = stablehlo.multiply %q2, %a1 : tensor<300x17xf32>
  %p3 = stablehlo.pad %b2, %z, low = [0, -8], high = [0, 8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m3 = stablehlo.multiply %a2, %p3 : tensor<300x17xf32>
  %b3 = stablehlo.add %b2, %m3 : tensor<300x17xf32>
  %q3 = stablehlo.pad %a2, %z, low = [0, -8], high = [0, 8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a3 = stablehlo.multiply %q3, %a2 : tensor<300x17xf32>
  %p4 = stablehlo.pad %b3, %z, low = [0, -16], high = [0, 16], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m4 = stablehlo.multiply %a3, %p4 : tensor<300x17xf32>
  %b4 = stablehlo.add %m4, %b3 : tensor<300x17xf32>
  return %b4 : tensor<300x17xf32>
}

// Factors that are no products of those before stay what they are.
// CHECK-LABEL: func.func @other
// CHECK-NOT: flow.dispatch
// CHECK-COUNT-9: stablehlo.pad
func.func @other(%x: tensor<300x17xf32>, %y: tensor<300x17xf32>) -> tensor<300x17xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p0 = stablehlo.pad %y, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m0 = stablehlo.multiply %x, %p0 : tensor<300x17xf32>
  %b0 = stablehlo.add %m0, %y : tensor<300x17xf32>
  %q0 = stablehlo.pad %x, %z, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a0 = stablehlo.multiply %q0, %x : tensor<300x17xf32>
  %p1 = stablehlo.pad %b0, %z, low = [0, 2], high = [0, -2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m1 = stablehlo.multiply %a0, %p1 : tensor<300x17xf32>
  %b1 = stablehlo.add %b0, %m1 : tensor<300x17xf32>
  %q1 = stablehlo.pad %a0, %z, low = [0, 2], high = [0, -2], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a1 = stablehlo.multiply %q1, %a0 : tensor<300x17xf32>
  %p2 = stablehlo.pad %b1, %z, low = [0, 4], high = [0, -4], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m2 = stablehlo.multiply %a1, %p2 : tensor<300x17xf32>
  %b2 = stablehlo.add %m2, %b1 : tensor<300x17xf32>
  %q2 = stablehlo.pad %a1, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a2 = stablehlo.multiply %q2, %a1 : tensor<300x17xf32>
  %p3 = stablehlo.pad %b2, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m3 = stablehlo.multiply %a2, %p3 : tensor<300x17xf32>
  %b3 = stablehlo.add %b2, %m3 : tensor<300x17xf32>
  %q3 = stablehlo.pad %a2, %z, low = [0, 8], high = [0, -8], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %a3 = stablehlo.multiply %q3, %a2 : tensor<300x17xf32>
  %p4 = stablehlo.pad %b3, %z, low = [0, 16], high = [0, -16], interior = [0, 0] : (tensor<300x17xf32>, tensor<f32>) -> tensor<300x17xf32>
  %m4 = stablehlo.multiply %a3, %p4 : tensor<300x17xf32>
  %b4 = stablehlo.add %m4, %b3 : tensor<300x17xf32>
  return %b4 : tensor<300x17xf32>
}
