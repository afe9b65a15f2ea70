// RUN: nabla-opt %s --nabla-schedule-products | filecheck %s
// RUN: nabla-opt %s --nabla-schedule-products=vector-bytes=16 | filecheck %s --check-prefix=NARROW

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
