// RUN: nabla-opt %s --nabla-schedule | filecheck %s
// RUN: nabla-opt %s --nabla-schedule=vector-bytes=16 | filecheck %s --check-prefix=NARROW

// Rows as long as vectors allow, of two vectors at once.
// CHECK: #[[SHARED:.*]] = #iree_cpu.lowering_config<distribution = [134, 0], vector_common_parallel = [1, 0], vector_reduction = [0, 50]>
// NARROW: vector_common_parallel = [1, 0], vector_reduction = [0, 10]
// Columns stay in registers while rows pass by.
// CHECK: #[[COLUMNS:.*]] = #iree_cpu.lowering_config<distribution = [64, 0], vector_common_parallel = [64, 0], vector_reduction = [0, 4]>

// The matrix is read once for both vectors.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-NOT: stablehlo.dot_general
// CHECK: return
func.func @shared(%a: tensor<2000x500xf32>, %x: tensor<500xf32>, %y: tensor<500xf32>) -> (tensor<2000xf32>, tensor<2000xf32>) {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<2000x500xf32>, tensor<500xf32>) -> tensor<2000xf32>
  %1 = stablehlo.dot_general %y, %a, contracting_dims = [0] x [1] : (tensor<500xf32>, tensor<2000x500xf32>) -> tensor<2000xf32>
  return %0, %1 : tensor<2000xf32>, tensor<2000xf32>
}

// The same for vectors that are matrices of one column.
// CHECK-LABEL: func.func @columns
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-COUNT-2: stablehlo.reshape {{.*}} -> tensor<2000x1xf32>
func.func @columns(%a: tensor<2000x500xf32>, %x: tensor<500x1xf32>, %y: tensor<500x1xf32>) -> (tensor<2000x1xf32>, tensor<2000x1xf32>) {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<2000x500xf32>, tensor<500x1xf32>) -> tensor<2000x1xf32>
  %1 = stablehlo.dot_general %a, %y, contracting_dims = [1] x [0] : (tensor<2000x500xf32>, tensor<500x1xf32>) -> tensor<2000x1xf32>
  return %0, %1 : tensor<2000x1xf32>, tensor<2000x1xf32>
}

// The second vector depends on the first product: two operations, the matrix as it stands in both.
// CHECK-LABEL: func.func @in_turn
// CHECK: linalg.generic
// CHECK-NOT: stablehlo.transpose
// CHECK: linalg.generic
// CHECK-NOT: stablehlo.dot_general
// CHECK: return
func.func @in_turn(%a: tensor<2000x500xf32>, %x: tensor<500xf32>) -> tensor<500xf32> {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<2000x500xf32>, tensor<500xf32>) -> tensor<2000xf32>
  %1 = stablehlo.dot_general %a, %0, contracting_dims = [0] x [0] : (tensor<2000x500xf32>, tensor<2000xf32>) -> tensor<500xf32>
  return %1 : tensor<500xf32>
}

// A prime length is cut into whole vectors and a rest.
// CHECK-LABEL: func.func @prime
// CHECK: stablehlo.slice {{.*}} -> tensor<509x448xf32>
// CHECK: linalg.generic
// CHECK: stablehlo.slice {{.*}} -> tensor<509x61xf32>
// CHECK: linalg.generic
func.func @prime(%a: tensor<509x509xf32>, %x: tensor<509xf32>) -> tensor<509xf32> {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<509x509xf32>, tensor<509xf32>) -> tensor<509xf32>
  return %0 : tensor<509xf32>
}

// IREE's own choice is as good: rows of one vector or less, few rows, batches, integers.
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-4: stablehlo.dot_general
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @left_alone(%a: tensor<100x3xf32>, %x: tensor<3xf32>, %b: tensor<3x100xf32>, %c: tensor<9x4x64xf32>, %i: tensor<64x64xi32>)
    -> (tensor<100xf32>, tensor<3x3xf32>, tensor<9x4x4xf32>, tensor<64x64xi32>) {
  %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<100x3xf32>, tensor<3xf32>) -> tensor<100xf32>
  %1 = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : (tensor<3x100xf32>, tensor<100x3xf32>) -> tensor<3x3xf32>
  %2 = stablehlo.dot_general %c, %c, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<9x4x64xf32>, tensor<9x4x64xf32>) -> tensor<9x4x4xf32>
  %3 = stablehlo.dot_general %i, %i, contracting_dims = [1] x [0] : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi32>
  return %0, %1, %2, %3 : tensor<100xf32>, tensor<3x3xf32>, tensor<9x4x4xf32>, tensor<64x64xi32>
}

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

// Products of one matrix with each of several, as a map makes them: one by one, without moved axes.
// CHECK-LABEL: func.func @shared_left
// CHECK-NOT: stablehlo.transpose
// CHECK-COUNT-2: linalg.generic
// CHECK: stablehlo.concatenate
func.func @shared_left(%a: tensor<128x784xf32>, %v: tensor<2x784x256xf32>) -> tensor<2x128x256xf32> {
  %1 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [1] : (tensor<128x784xf32>, tensor<2x784x256xf32>) -> tensor<128x2x256xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<128x2x256xf32>) -> tensor<2x128x256xf32>
  return %2 : tensor<2x128x256xf32>
}

// Over the last axis of the several they are one matrix; over the middle one each is a product of its own.
// CHECK-LABEL: func.func @shared_right
// CHECK: stablehlo.reshape %{{.*}} : (tensor<2x128x256xf32>) -> tensor<256x256xf32>
// CHECK-COUNT-3: linalg.generic
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

// One axis: a product of all patches.
// CHECK-LABEL: func.func @signal
// CHECK-COUNT-2: stablehlo.slice
// CHECK: stablehlo.concatenate {{.*}} -> tensor<4x9x6xf32>
// CHECK-NOT: stablehlo.convolution
// CHECK: return
func.func @signal(%x: tensor<4x10x3xf32>, %k: tensor<2x3x5xf32>) -> tensor<4x9x5xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x10x3xf32>, tensor<2x3x5xf32>) -> tensor<4x9x5xf32>
  return %0 : tensor<4x9x5xf32>
}

// What takes many instructions is not done row by row with the product, but behind it, on whole vectors.
// CHECK-LABEL: func.func @functions_behind
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[R]]
// CHECK: stablehlo.exponential %[[STORED]]
func.func @functions_behind(%a: tensor<2000x512xf32>, %x: tensor<512xf32>) -> tensor<2000xf32> {
  %y = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<2000x512xf32>, tensor<512xf32>) -> tensor<2000xf32>
  %e = stablehlo.exponential %y : tensor<2000xf32>
  return %e : tensor<2000xf32>
}

// A few instructions are.
// CHECK-LABEL: func.func @little_behind
// CHECK: %[[R:.*]] = linalg.generic
// CHECK-NOT: iree_tensor_ext.compute_barrier.start
// CHECK: stablehlo.add %[[R]]
func.func @little_behind(%a: tensor<2000x512xf32>, %x: tensor<512xf32>) -> tensor<2000xf32> {
  %y = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<2000x512xf32>, tensor<512xf32>) -> tensor<2000xf32>
  %e = stablehlo.add %y, %y : tensor<2000xf32>
  return %e : tensor<2000xf32>
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

// Elementwise operations go before a transpose, and a sum takes what is left of it.
// CHECK-LABEL: func.func @sunk
// CHECK-NOT: stablehlo.transpose
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<25x10xf32>) -> tensor<25x10x1000xf32>
// CHECK: %[[P:.*]] = stablehlo.multiply %arg0, %[[B]] : tensor<25x10x1000xf32>
// CHECK: %[[S:.*]] = stablehlo.reduce(%[[P]] {{.*}} across dimensions = [1] {{.*}} -> tensor<25x1000xf32>
// CHECK: stablehlo.transpose {{.*}} (tensor<25x1000xf32>) -> tensor<1000x25xf32>
func.func @sunk(%x: tensor<25x10x1000xf32>, %d: tensor<25x10xf32>) -> tensor<1000x25xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<25x10x1000xf32>) -> tensor<1000x25x10xf32>
  %1 = stablehlo.broadcast_in_dim %d, dims = [1, 2] : (tensor<25x10xf32>) -> tensor<1000x25x10xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<1000x25x10xf32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [2] : (tensor<1000x25x10xf32>, tensor<f32>) -> tensor<1000x25xf32>
  return %3 : tensor<1000x25xf32>
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

// A transpose is not fused with what it is of, and what reads it.
// CHECK-LABEL: func.func @stored_transpose
// CHECK: %[[E:.*]] = stablehlo.exponential
// CHECK: %[[H:.*]] = iree_tensor_ext.compute_barrier.start %[[E]]
// CHECK: %[[T:.*]] = stablehlo.transpose %[[H]]
// CHECK: %[[HT:.*]] = iree_tensor_ext.compute_barrier.start %[[T]]
// CHECK: stablehlo.add %[[E]], %[[HT]]
func.func @stored_transpose(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %0 = stablehlo.exponential %x : tensor<100x100xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<100x100xf32>) -> tensor<100x100xf32>
  %2 = stablehlo.add %0, %1 : tensor<100x100xf32>
  return %2 : tensor<100x100xf32>
}
