// RUN: nabla-opt %s --nabla-keep-sorted | filecheck %s

// Only the places are wanted; the sorted numbers have a use all the same, or they would be sorted on the stack.
// CHECK-LABEL: func.func @places
// CHECK: %[[R:.*]]:2 = "stablehlo.sort"
// CHECK: util.optimization_barrier %[[R]]#0
// CHECK-NEXT: return %[[R]]#1
func.func @places(%x: tensor<64x300xf32>, %i: tensor<64x300xi32>) -> tensor<64x300xi32> {
  %r:2 = "stablehlo.sort"(%x, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<64x300xf32>, tensor<64x300xi32>) -> (tensor<64x300xf32>, tensor<64x300xi32>)
  return %r#1 : tensor<64x300xi32>
}

// A GPU: the results of a sort of one row have uses, whichever are wanted; those of several rows need none.
// RUN: nabla-opt %s --nabla-keep-sorted=target=cuda | filecheck %s --check-prefix=CUDA

// CUDA-LABEL: func.func @places
// CUDA-NOT: util.optimization_barrier

// CHECK-LABEL: func.func @one_row
// CHECK-NOT: util.optimization_barrier
// CUDA-LABEL: func.func @one_row
// CUDA: %[[R:.*]]:2 = "stablehlo.sort"
// CUDA: util.optimization_barrier %[[R]]#1
// CUDA-NEXT: return %[[R]]#0
func.func @one_row(%x: tensor<1x30xf32>, %i: tensor<1x30xi32>) -> tensor<1x30xf32> {
  %r:2 = "stablehlo.sort"(%x, %i) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<1x30xf32>, tensor<1x30xi32>) -> (tensor<1x30xf32>, tensor<1x30xi32>)
  return %r#0 : tensor<1x30xf32>
}
