// RUN: nabla-opt %s --nabla-separate-parts | filecheck %s

// What is sorted is a part of an array: it is in memory before, or the sort would have all of it on the stack.
// CHECK-LABEL: func.func @sorted_part
// CHECK: %[[PART:.*]] = stablehlo.slice
// CHECK-NEXT: %[[STORED:.*]] = iree_tensor_ext.compute_barrier.start %[[PART]]
// CHECK-NEXT: "stablehlo.sort"(%[[STORED]])
func.func @sorted_part(%x: tensor<9xf32>) -> tensor<8xf32> {
  %0 = stablehlo.slice %x [0:8] : (tensor<9xf32>) -> tensor<8xf32>
  %1 = "stablehlo.sort"(%0) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Elements that do not lie side by side are brought together before they are reversed.
// CHECK-LABEL: func.func @reversed_column
// CHECK: stablehlo.slice
// CHECK-NEXT: iree_tensor_ext.compute_barrier.start
// CHECK-NEXT: stablehlo.reverse
func.func @reversed_column(%x: tensor<8x3xf32>) -> tensor<8x1xf32> {
  %0 = stablehlo.slice %x [0:8, 1:2] : (tensor<8x3xf32>) -> tensor<8x1xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<8x1xf32>
  return %1 : tensor<8x1xf32>
}
