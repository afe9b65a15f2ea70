// RUN: nabla-opt %s --nabla-fuse-sums='least-size=64 vector-bytes=32' | filecheck %s

// Rows are summed in registers, columns in memory of each workgroup; nothing else is stored.
// CHECK-LABEL: hal.executable.source private @sums_0
// CHECK: binding(2) offset(%{{.*}}) : memref<512xf32>
// CHECK: %[[COLUMNS:.*]] = hal.interface.binding.subspan {{.*}} : memref<4096xf32>
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: %[[SINE:.*]] = math.sin {{.*}} : vector<8xf32>
// CHECK: %[[OLD:.*]] = vector.load %[[COLUMNS]]
// CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[SINE]]
// CHECK: vector.store %[[NEW]], %[[COLUMNS]]
// CHECK: vector.reduction <add>, %[[SUM]]
// CHECK: memref.store {{.*}} : memref<512xf32>

// CHECK-LABEL: func.func @rows_and_columns
// CHECK: %[[SUMS:.*]]:2 = flow.dispatch @sums_0::@sums_0(%arg0, %arg1) : (tensor<512xf32>, tensor<256xf32>) -> (tensor<512xf32>, tensor<16x256xf32>)
// CHECK: %[[TOTAL:.*]] = stablehlo.reduce(%[[SUMS]]#1 {{.*}} across dimensions = [0]
// CHECK: return %[[SUMS]]#0, %[[TOTAL]]
func.func @rows_and_columns(%x: tensor<512xf32>, %y: tensor<256xf32>) -> (tensor<512xf32>, tensor<256xf32>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<512xf32>) -> tensor<512x256xf32>
  %1 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<256xf32>) -> tensor<512x256xf32>
  %2 = stablehlo.add %0, %1 : tensor<512x256xf32>
  %3 = stablehlo.sine %2 : tensor<512x256xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<512x256xf32>, tensor<f32>) -> tensor<512xf32>
  %5 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512x256xf32>, tensor<f32>) -> tensor<256xf32>
  return %4, %5 : tensor<512xf32>, tensor<256xf32>
}

// One sum is left to IREE, and so are sums of a value that is in memory in any case: read by the product, or given.
// CHECK-LABEL: func.func @one
// CHECK-NOT: flow.dispatch
// CHECK-LABEL: func.func @read
// CHECK-NOT: flow.dispatch
// CHECK-LABEL: func.func @given
// CHECK-NOT: flow.dispatch
func.func @one(%x: tensor<32xf32>) -> tensor<16xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.sine %0 : tensor<32x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x16xf32>, tensor<f32>) -> tensor<16xf32>
  return %2 : tensor<16xf32>
}
func.func @read(%x: tensor<32xf32>, %w: tensor<16x16xf32>) -> (tensor<32xf32>, tensor<16xf32>, tensor<32x16xf32>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.sine %0 : tensor<32x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
  %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x16xf32>, tensor<f32>) -> tensor<16xf32>
  %4 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  return %2, %3, %4 : tensor<32xf32>, tensor<16xf32>, tensor<32x16xf32>
}
func.func @given(%x: tensor<32x16xf32>) -> (tensor<32xf32>, tensor<16xf32>) {
  %0 = stablehlo.sine %x : tensor<32x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x16xf32>, tensor<f32>) -> tensor<32xf32>
  %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x16xf32>, tensor<f32>) -> tensor<16xf32>
  return %1, %2 : tensor<32xf32>, tensor<16xf32>
}
