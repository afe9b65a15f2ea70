// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-recompute{least-bytes=1024})' --split-input-file | filecheck %s

// Two factors that are read late are made again of the one value that they are made of; the barrier keeps them apart from
// those that are read at once.
// CHECK-LABEL: func.func @activation
// CHECK: %[[HIDDEN:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK: %[[ABS:.*]] = stablehlo.abs %[[HIDDEN]]
// CHECK-NOT: stablehlo.sign
// CHECK: %[[OUT:.*]] = stablehlo.dot_general %[[ABS]], %arg1
// CHECK: %[[BACK:.*]] = stablehlo.dot_general %[[OUT]], %arg1
// CHECK: %[[HELD:.*]] = iree_tensor_ext.compute_barrier.start %[[HIDDEN]]
// CHECK: %[[SIGN:.*]] = stablehlo.sign %[[HELD]]
// CHECK: %[[SLOPE:.*]] = stablehlo.multiply %[[BACK]], %[[SIGN]]
// CHECK: %[[ABS_AGAIN:.*]] = stablehlo.abs %[[HELD]]
// CHECK: stablehlo.multiply %[[SLOPE]], %[[ABS_AGAIN]]
func.func @activation(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.abs %0 : tensor<32x32xf32>
  %2 = stablehlo.sign %0 : tensor<32x32xf32>
  %3 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %5 = stablehlo.multiply %4, %2 : tensor<32x32xf32>
  %6 = stablehlo.multiply %5, %1 : tensor<32x32xf32>
  return %6 : tensor<32x32xf32>
}

// -----

// A value that takes as many bytes as what it is made of is held, and so is one that is there in any case.
// CHECK-LABEL: func.func @held
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @held(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.abs %0 : tensor<32x32xf32>
  %2 = stablehlo.exponential %1 : tensor<32x32xf32>
  %3 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.multiply %3, %1 : tensor<32x32xf32>
  %5 = stablehlo.multiply %3, %2 : tensor<32x32xf32>
  return %4, %2 : tensor<32x32xf32>, tensor<32x32xf32>
}

// -----

// Arguments are there to the end: what is made of them, and of small values, is held nowhere.
// CHECK-LABEL: func.func @arguments
// CHECK: %[[SUM:.*]] = stablehlo.reduce
// CHECK: %[[SUMS:.*]] = stablehlo.broadcast_in_dim %[[SUM]]
// CHECK: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %arg1
// CHECK: %[[HELD:.*]] = iree_tensor_ext.compute_barrier.start %arg0
// CHECK: %[[SHIFTED:.*]] = stablehlo.subtract %[[HELD]], %[[ROWS]]
// CHECK: stablehlo.divide %[[SHIFTED]], %[[SUMS]]
func.func @arguments(%x: tensor<32x32xf32>, %y: tensor<32xf32>) -> tensor<32x32xf32> {
  %rows = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<32xf32>) -> tensor<32x32xf32>
  %0 = stablehlo.subtract %x, %rows : tensor<32x32xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<32x32xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.divide %0, %3 : tensor<32x32xf32>
  return %4 : tensor<32x32xf32>
}

// -----

// So it is in loops; and a function that takes long is not computed twice.
// CHECK-LABEL: func.func @loop
// CHECK: stablehlo.while
// CHECK: %[[HELD:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK-NOT: chlo.lgamma
// CHECK: stablehlo.abs %[[HELD]]
// CHECK-LABEL: func.func @long
// CHECK-COUNT-1: chlo.lgamma
// CHECK: return
func.func @loop(%x: tensor<32x32xf32>, %n: tensor<i32>) -> (tensor<32x32xf32>, tensor<i32>) {
  %0:2 = stablehlo.while(%y = %x, %i = %n) : tensor<32x32xf32>, tensor<i32> cond {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.abs %1 : tensor<32x32xf32>
    %3 = stablehlo.sign %1 : tensor<32x32xf32>
    %4 = stablehlo.dot_general %1, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = stablehlo.multiply %4, %2 : tensor<32x32xf32>
    %6 = stablehlo.multiply %5, %3 : tensor<32x32xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %7 = stablehlo.subtract %i, %one : tensor<i32>
    stablehlo.return %6, %7 : tensor<32x32xf32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<32x32xf32>, tensor<i32>
}
func.func @long(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = chlo.lgamma %0 : tensor<32x32xf32> -> tensor<32x32xf32>
  %2 = stablehlo.abs %1 : tensor<32x32xf32>
  %3 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.multiply %3, %2 : tensor<32x32xf32>
  %5 = stablehlo.multiply %4, %1 : tensor<32x32xf32>
  return %5 : tensor<32x32xf32>
}

// -----

// What is made of a value that is known only behind the first late reader stands behind it, too.
// CHECK-LABEL: func.func @between
// CHECK: %[[FIRST:.*]] = iree_tensor_ext.compute_barrier.start %arg0
// CHECK: %[[ABS:.*]] = stablehlo.abs %[[FIRST]]
// CHECK: stablehlo.multiply %{{.*}}, %[[ABS]]
// CHECK: %[[LATER:.*]] = stablehlo.dot_general %arg1, %arg0
// CHECK: %[[SECOND:.*]] = iree_tensor_ext.compute_barrier.start %[[LATER]]
// CHECK: %[[SIGN:.*]] = stablehlo.sign %[[SECOND]]
// CHECK: stablehlo.multiply %{{.*}}, %[[SIGN]]
func.func @between(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.abs %x : tensor<32x32xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = stablehlo.multiply %2, %0 : tensor<32x32xf32>
  %4 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %5 = stablehlo.sign %4 : tensor<32x32xf32>
  %6 = stablehlo.negate %4 : tensor<32x32xf32>
  %7 = stablehlo.multiply %3, %5 : tensor<32x32xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<32x32xf32>
  return %8 : tensor<32x32xf32>
}

// -----

// Behind a barrier there is one of the other kind: of two of one kind IREE leaves one, and would merge what is made again
// with what is there. A constant is in the code, not in memory.
// CHECK-LABEL: func.func @behind_a_barrier
// CHECK: %[[HIDDEN:.*]] = iree_tensor_ext.compute_barrier.start
// CHECK: %[[LATE:.*]] = stablehlo.dot_general
// CHECK: %[[LATER:.*]] = stablehlo.dot_general %[[LATE]]
// CHECK: %[[HELD:.*]] = iree_tensor_ext.compute_barrier.end %[[HIDDEN]]
// CHECK: stablehlo.multiply %[[HELD]], %cst
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @behind_a_barrier(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %half = stablehlo.constant dense<5.0e-01> : tensor<32x32xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<32x32xf32> -> tensor<32x32xf32>
  %2 = stablehlo.multiply %1, %half : tensor<32x32xf32>
  %3 = stablehlo.abs %1 : tensor<32x32xf32>
  %4 = stablehlo.add %1, %2 : tensor<32x32xf32>
  %5 = stablehlo.dot_general %4, %w, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %6 = stablehlo.dot_general %5, %1, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %7 = stablehlo.multiply %6, %2 : tensor<32x32xf32>
  %8 = stablehlo.multiply %7, %3 : tensor<32x32xf32>
  return %8 : tensor<32x32xf32>
}
