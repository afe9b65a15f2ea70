// RUN: nabla-opt %s --nabla-place-results | filecheck %s

// Memory is allocated first. What is small stays where it is, and so do arguments and constants.
// CHECK-LABEL: func.func @placed
// CHECK: %[[DEVICE:.*]] = hal.devices.get
// CHECK: %[[ALLOCATOR:.*]] = hal.device.allocator<%[[DEVICE]] : !hal.device>
// CHECK: %[[BUFFER:.*]] = hal.allocator.allocate<%[[ALLOCATOR]] : !hal.allocator> {{.*}} : !hal.buffer{%c4096}
// CHECK: %[[SINE:.*]] = stablehlo.sine
// CHECK: %[[PLACED:.*]] = hal.tensor.alias %[[SINE]] : tensor<1024xf32> to %[[BUFFER]] : !hal.buffer
// CHECK: return %[[PLACED]], %{{.*}}, %{{.*}}, %arg0
func.func @placed(%x: tensor<1024xf32>, %y: tensor<3xf32>) -> (tensor<1024xf32>, tensor<3xf32>, tensor<2048xf32>, tensor<1024xf32>) {
  %0 = stablehlo.sine %x : tensor<1024xf32>
  %1 = stablehlo.sine %y : tensor<3xf32>
  %2 = stablehlo.constant dense<1.0> : tensor<2048xf32>
  return %0, %1, %2, %x : tensor<1024xf32>, tensor<3xf32>, tensor<2048xf32>, tensor<1024xf32>
}

// Unsigned numbers are signed where IREE has no others.
// CHECK-LABEL: func.func @unsigned
// CHECK: %[[SIGNED:.*]] = stablehlo.bitcast_convert {{.*}} -> tensor<1024xi32>
// CHECK: %[[PLACED:.*]] = hal.tensor.alias %[[SIGNED]]
// CHECK: stablehlo.bitcast_convert %[[PLACED]] {{.*}} -> tensor<1024xui32>
func.func @unsigned(%x: tensor<1024xui32>) -> tensor<1024xui32> {
  %0 = stablehlo.add %x, %x : tensor<1024xui32>
  return %0 : tensor<1024xui32>
}

// The caller gives the memory of the second result; what only other functions call returns no buffers.
// CHECK-LABEL: func.func @given
// CHECK-COUNT-1: hal.tensor.alias
// CHECK: return
// CHECK-LABEL: func.func private @inner
// CHECK-NOT: hal.tensor.alias
func.func @given(%x: tensor<1024xf32>, %out: tensor<1024xf32> {iree.abi.output = 1 : index}) -> (tensor<1024xf32>, tensor<1024xf32>) {
  %0 = func.call @inner(%x) : (tensor<1024xf32>) -> tensor<1024xf32>
  %1 = stablehlo.cosine %x : tensor<1024xf32>
  return %0, %1 : tensor<1024xf32>, tensor<1024xf32>
}
func.func private @inner(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.sine %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}

// In a large program small results are placed, too: held, they would keep slabs of the pool from others.
// CHECK-LABEL: func.func @large
// CHECK: hal.allocator.allocate<{{.*}} : !hal.buffer{%c4}
// CHECK: hal.tensor.alias %{{.*}} : tensor<f32>
func.func @large(%x: tensor<512x512xf32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<512x512xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<512x512xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// A sum that dispatches make in place is in the memory of the result from its first term on.
// CHECK-LABEL: func.func @added
// CHECK: %[[BUFFER:.*]] = hal.allocator.allocate
// CHECK: %[[TERM:.*]] = flow.dispatch @sums::@sums(%arg0)
// CHECK: %[[PLACED:.*]] = hal.tensor.alias %[[TERM]] : tensor<1x1024xf32> to %[[BUFFER]] : !hal.buffer
// CHECK: %[[SUM:.*]] = flow.dispatch @sums::@sums(%arg0, %[[PLACED]]) : {{.*}} -> %[[PLACED]]
// CHECK: %[[RESULT:.*]] = stablehlo.reshape %[[SUM]]
// CHECK: %[[OTHER:.*]] = hal.tensor.alias %[[RESULT]] : tensor<1024xf32>
// CHECK: return %[[RESULT]], %[[OTHER]]
func.func @added(%x: tensor<1024xf32>) -> (tensor<1024xf32>, tensor<1024xf32>) {
  %0 = flow.dispatch @sums::@sums(%x) : (tensor<1024xf32>) -> tensor<1x1024xf32>
  %1 = flow.dispatch @sums::@sums(%x, %0) : (tensor<1024xf32>, tensor<1x1024xf32>) -> %0
  %2 = stablehlo.reshape %1 : (tensor<1x1024xf32>) -> tensor<1024xf32>
  return %2, %2 : tensor<1024xf32>, tensor<1024xf32>
}

// What is written into an argument that is given away stays there.
// CHECK-LABEL: func.func @donated
// CHECK-NOT: hal.tensor.alias
// CHECK: return
func.func @donated(%x: tensor<1024xf32> {iree.abi.consume}, %v: tensor<1xf32>, %i: tensor<i32>) -> tensor<1024xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %v, %i : (tensor<1024xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK: hal.tensor.alias
func.func @kept(%x: tensor<1024xf32>, %v: tensor<1xf32>, %i: tensor<i32>) -> tensor<1024xf32> {
  %0 = stablehlo.dynamic_update_slice %x, %v, %i : (tensor<1024xf32>, tensor<1xf32>, tensor<i32>) -> tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
