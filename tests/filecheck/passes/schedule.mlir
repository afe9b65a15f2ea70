// RUN: nabla-opt %s --nabla-schedule | filecheck %s

// The gradient of a kernel: a product of matrices for each of its nine places.
// CHECK-LABEL: func.func @kernel_gradient
// CHECK-NOT: stablehlo.convolution
// CHECK-COUNT-9: linalg.generic {{.*}} ins({{.*}} : tensor<12544x16xf32>, tensor<12544x16xf32>)
// CHECK-NOT: linalg.generic
// CHECK-NOT: stablehlo.dot_general
// CHECK: stablehlo.concatenate
func.func @kernel_gradient(%x: tensor<16x28x28x16xf32>, %ct: tensor<16x28x28x16xf32>) -> tensor<3x3x16x16xf32> {
  %0 = stablehlo.convolution(%x, %ct) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<16x28x28x16xf32>, tensor<16x28x28x16xf32>) -> tensor<3x3x16x16xf32>
  return %0 : tensor<3x3x16x16xf32>
}

// Products of one matrix with each of several, as a map makes them: one loop nest, without moved axes or copies of the matrix.
// CHECK-LABEL: func.func @shared_left
// CHECK-NOT: stablehlo.transpose
// CHECK-NOT: stablehlo.broadcast_in_dim
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<128x784xf32>, tensor<2x784x256xf32>)
// CHECK-NOT: linalg.generic
// CHECK-NOT: stablehlo.concatenate
func.func @shared_left(%a: tensor<128x784xf32>, %v: tensor<2x784x256xf32>) -> tensor<2x128x256xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<128x784xf32>, tensor<2x784x256xf32>) -> tensor<128x2x256xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<128x2x256xf32>) -> tensor<2x128x256xf32>
  return %2 : tensor<2x128x256xf32>
}

// Over the last axis of the several they are one matrix; over the middle one they are read as they lie.
// CHECK-LABEL: func.func @shared_right
// CHECK: stablehlo.reshape %{{.*}} : (tensor<2x128x256xf32>) -> tensor<256x256xf32>
// CHECK: linalg.generic
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<2x128x256xf32>, tensor<128x64xf32>)
// CHECK-NOT: linalg.generic
func.func @shared_right(%v: tensor<2x128x256xf32>, %a: tensor<256x64xf32>, %b: tensor<128x64xf32>) -> (tensor<2x128x64xf32>, tensor<2x256x64xf32>) {
  %1 = stablehlo.dot_general %v, %a, contracting_dims = [2] x [0] : (tensor<2x128x256xf32>, tensor<256x64xf32>) -> tensor<2x128x64xf32>
  %2 = stablehlo.dot_general %v, %b, contracting_dims = [1] x [0] : (tensor<2x128x256xf32>, tensor<128x64xf32>) -> tensor<2x256x64xf32>
  return %1, %2 : tensor<2x128x64xf32>, tensor<2x256x64xf32>
}

// Parts of a stack that stand together are taken from there, and what remains of it is a choice by index.
// CHECK-LABEL: func.func @pairs
// CHECK-NOT: stablehlo.concatenate
// CHECK: stablehlo.iota dim = 1
// CHECK: %[[S:.*]] = stablehlo.select
// CHECK: %[[N:.*]] = stablehlo.negate %{{.*}} : tensor<64x1xf32>
// CHECK-NOT: stablehlo.slice
// CHECK: %[[P:.*]] = stablehlo.reshape %[[N]] : (tensor<64x1xf32>) -> tensor<64xf32>
// CHECK: return %[[S]], %[[P]]
func.func @pairs(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<64x2xf32>, tensor<64xf32>) {
  %a = stablehlo.reshape %x : (tensor<64xf32>) -> tensor<64x1xf32>
  %b = stablehlo.reshape %y : (tensor<64xf32>) -> tensor<64x1xf32>
  %s = stablehlo.concatenate %a, %b, dim = 1 : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x2xf32>
  %n = stablehlo.negate %s : tensor<64x2xf32>
  %p = stablehlo.slice %n [0:64, 0:1] : (tensor<64x2xf32>) -> tensor<64x1xf32>
  %q = stablehlo.reshape %p : (tensor<64x1xf32>) -> tensor<64xf32>
  return %s, %q : tensor<64x2xf32>, tensor<64xf32>
}

// Long parts are copied well.
// CHECK-LABEL: func.func @long_parts
// CHECK: stablehlo.concatenate
func.func @long_parts(%x: tensor<1x500xf32>, %y: tensor<1x500xf32>) -> tensor<2x500xf32> {
  %s = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1x500xf32>, tensor<1x500xf32>) -> tensor<2x500xf32>
  return %s : tensor<2x500xf32>
}

// Sums over columns are products with ones, also of booleans; a sum over everything begins with the last dimension.
// CHECK-LABEL: func.func @sums
// CHECK: compute_barrier.start
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<200x100xf32>, tensor<200xf32>) outs({{.*}} : tensor<100xf32>)
// CHECK: stablehlo.convert {{.*}} -> tensor<200x100xf32>
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<200x100xf32>, tensor<200xf32>) outs({{.*}} : tensor<100xf32>)
// CHECK: stablehlo.compare GT
// CHECK: stablehlo.reduce{{.*}} across dimensions = [1]
// CHECK: compute_barrier.start
// CHECK: stablehlo.reduce{{.*}} across dimensions = [0]
// CHECK: return
func.func @sums(%x: tensor<200x100xf32>, %p: tensor<200x100xi1>) -> (tensor<100xf32>, tensor<100xi1>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %f = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<200x100xf32>, tensor<f32>) -> tensor<100xf32>
  %1 = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [0] : (tensor<200x100xi1>, tensor<i1>) -> tensor<100xi1>
  %2 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<200x100xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<100xf32>, tensor<100xi1>, tensor<f32>
}

// A batch of products, of which the second factor is computed with its axes in the order that the products read.
// CHECK-LABEL: func.func @batch
// CHECK: %[[D:.*]] = stablehlo.subtract {{.*}} : tensor<25x10x1000xf32>
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[D]]
// CHECK: linalg.generic {{.*}} ins(%arg0, %[[STORED]] : tensor<25x10x10xf32>, tensor<25x10x1000xf32>)
// CHECK-SAME: compilation_info
func.func @batch(%a: tensor<25x10x10xf32>, %x: tensor<1000x10xf32>, %m: tensor<25x10xf32>) -> tensor<25x10x1000xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<1000x10xf32>) -> tensor<1000x25x10xf32>
  %1 = stablehlo.broadcast_in_dim %m, dims = [1, 2] : (tensor<25x10xf32>) -> tensor<1000x25x10xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<1000x25x10xf32>
  %3 = stablehlo.dot_general %a, %2, batching_dims = [0] x [1], contracting_dims = [2] x [2]
    : (tensor<25x10x10xf32>, tensor<1000x25x10xf32>) -> tensor<25x10x1000xf32>
  return %3 : tensor<25x10x1000xf32>
}

// The short axis of differences of points goes first.
// CHECK-LABEL: func.func @points
// CHECK: stablehlo.subtract {{.*}} : tensor<3x100x100xf32>
// CHECK: linalg.generic {{.*}} ins({{.*}} : tensor<3x10000xf32>, tensor<3xf32>)
func.func @points(%x: tensor<100x3xf32>) -> tensor<100x100xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<100x3xf32>) -> tensor<100x100x3xf32>
  %1 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<100x3xf32>) -> tensor<100x100x3xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<100x100x3xf32>
  %3 = stablehlo.multiply %2, %2 : tensor<100x100x3xf32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [2] : (tensor<100x100x3xf32>, tensor<f32>) -> tensor<100x100xf32>
  return %4 : tensor<100x100xf32>
}

