// RUN: nabla-opt %s --nabla-place-transients | filecheck %s

// One buffer, whose size stands for one that is not known, and each result says that it takes what it needs from there.
// CHECK-LABEL: func.func @large
// CHECK: %[[SIZE:.*]] = arith.constant 474080242785 : index
// CHECK: %[[BUFFER:.*]] = hal.allocator.allocate{{.*}} : !hal.buffer{%[[SIZE]]}
// CHECK: %[[X:.*]] = hal.tensor.transients %{{.*}} : tensor<8192x2048xf32> from %[[BUFFER]] : !hal.buffer
// CHECK: %[[Y:.*]] = hal.tensor.transients %{{.*}} : tensor<f32> from %[[BUFFER]] : !hal.buffer
// CHECK: return %[[X]], %[[Y]], %arg1
func.func @large(%x: tensor<8192x2048xf32>, %y: tensor<f32>) -> (tensor<8192x2048xf32>, tensor<f32>, tensor<f32>) {
  %0 = stablehlo.sine %x : tensor<8192x2048xf32>
  %1 = stablehlo.sine %y : tensor<f32>
  return %0, %1, %y : tensor<8192x2048xf32>, tensor<f32>, tensor<f32>
}

// What is small finds its memory in the pool.
// CHECK-LABEL: func.func @small
// CHECK-NOT: hal.
// CHECK: return
func.func @small(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.sine %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}

// The turns of a loop of the host would share memory: it is only marked, and laid out later.
// CHECK-LABEL: func.func @loop
// CHECK-SAME: iree.reflection = {nabla.transients = "later"}
// CHECK-NOT: hal.
// CHECK: return
func.func @loop(%x: tensor<8192x2048xf32>, %n: tensor<i32>) -> tensor<8192x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8192x2048xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.sine %v : tensor<8192x2048xf32>
    stablehlo.return %j, %w : tensor<i32>, tensor<8192x2048xf32>
  }
  return %0#1 : tensor<8192x2048xf32>
}
