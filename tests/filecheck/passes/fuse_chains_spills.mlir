// RUN: nabla-opt %s --nabla-fuse-chains='least-of-spills=6 least-spills=4' | filecheck %s
// RUN: nabla-opt %s --nabla-fuse-chains='least-of-spills=6 least-spills=5' | filecheck %s --check-prefix=LEFT
// RUN: nabla-opt %s --nabla-fuse-chains='least-of-spills=7 least-spills=4' | filecheck %s --check-prefix=LEFT

// LEFT-NOT: flow.dispatch.workgroups

// IREE would write four values, which two results are made of.
// CHECK-LABEL: func.func @written
// CHECK: %[[Y:.*]]:2 = flow.dispatch.workgroups(%arg0) : (tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>)
// CHECK: return %[[Y]]#0, %[[Y]]#1
func.func @written(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %a = stablehlo.sine %x : tensor<9xf32>
  %b = stablehlo.multiply %a, %x : tensor<9xf32>
  %c = stablehlo.multiply %b, %a : tensor<9xf32>
  %d = stablehlo.multiply %c, %b : tensor<9xf32>
  %f = stablehlo.multiply %d, %c : tensor<9xf32>
  %g = stablehlo.add %d, %c : tensor<9xf32>
  return %f, %g : tensor<9xf32>, tensor<9xf32>
}

// A slice would have to be written for a dispatch of its own.
// CHECK-LABEL: func.func @part
// CHECK-NOT: flow.dispatch.workgroups
func.func @part(%y: tensor<10xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %x = stablehlo.slice %y [1:10] : (tensor<10xf32>) -> tensor<9xf32>
  %a = stablehlo.sine %x : tensor<9xf32>
  %b = stablehlo.multiply %a, %x : tensor<9xf32>
  %c = stablehlo.multiply %b, %a : tensor<9xf32>
  %d = stablehlo.multiply %c, %b : tensor<9xf32>
  %f = stablehlo.multiply %d, %c : tensor<9xf32>
  %g = stablehlo.add %d, %c : tensor<9xf32>
  return %f, %g : tensor<9xf32>, tensor<9xf32>
}
