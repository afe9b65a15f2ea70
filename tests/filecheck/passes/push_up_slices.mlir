// RUN: nabla-opt %s --nabla-push-up-slices | filecheck %s

// Values that only slices use are computed from slices of the arguments; nothing of 100000 elements is written.
// CHECK-LABEL: func.func @neighbours
// CHECK-NOT: tensor<100000xf32>
// CHECK: %[[HEAD:.*]] = stablehlo.slice %{{.*}} [0:1]
// CHECK: stablehlo.slice %{{.*}} [1:100000]
// CHECK: %[[ALL:.*]] = stablehlo.concatenate {{.*}} -> tensor<100001xf32>
// CHECK-NEXT: return %[[ALL]]
func.func @neighbours(%x: tensor<100001xf32>) -> tensor<100001xf32> {
  %two = stablehlo.constant dense<2.0> : tensor<100000xf32>
  %low = stablehlo.slice %x [0:100000] : (tensor<100001xf32>) -> tensor<100000xf32>
  %y = stablehlo.multiply %low, %two : tensor<100000xf32>
  %z = stablehlo.negate %y : tensor<100000xf32>
  %a = stablehlo.slice %z [0:1] : (tensor<100000xf32>) -> tensor<1xf32>
  %b = stablehlo.slice %z [1:100000] : (tensor<100000xf32>) -> tensor<99999xf32>
  %c = stablehlo.slice %y [0:99999] : (tensor<100000xf32>) -> tensor<99999xf32>
  %d = stablehlo.slice %y [99999:100000] : (tensor<100000xf32>) -> tensor<1xf32>
  %m = stablehlo.add %b, %c : tensor<99999xf32>
  %r = stablehlo.concatenate %a, %m, %d, dim = 0 : (tensor<1xf32>, tensor<99999xf32>, tensor<1xf32>) -> tensor<100001xf32>
  return %r : tensor<100001xf32>
}

// What is also needed whole, or costs more than memory, stays.
// CHECK-LABEL: func.func @needed_whole
// CHECK: %[[Y:.*]] = stablehlo.negate
// CHECK: stablehlo.slice %[[Y]]
// CHECK: %[[Z:.*]] = stablehlo.exponential
// CHECK: stablehlo.slice %[[Z]]
func.func @needed_whole(%x: tensor<100000xf32>) -> (tensor<100000xf32>, tensor<5xf32>, tensor<5xf32>) {
  %y = stablehlo.negate %x : tensor<100000xf32>
  %a = stablehlo.slice %y [0:5] : (tensor<100000xf32>) -> tensor<5xf32>
  %z = stablehlo.exponential %x : tensor<100000xf32>
  %b = stablehlo.slice %z [0:5] : (tensor<100000xf32>) -> tensor<5xf32>
  return %y, %a, %b : tensor<100000xf32>, tensor<5xf32>, tensor<5xf32>
}
