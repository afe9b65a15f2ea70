// RUN: nabla-opt %s --nabla-legalize-sorts | filecheck %s

// Equal numbers keep their order: where they stood is the last key.
// CHECK-LABEL: func.func @stable
// CHECK: %[[PLACE:.*]] = stablehlo.iota dim = 0 : tensor<8xi32>
// CHECK: "stablehlo.sort"(%arg0, %[[PLACE]])
// CHECK-SAME: is_stable = false
// CHECK: nabla.final
func.func @stable(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// A long sort would take quadratic time: a network of comparisons.
// CHECK-LABEL: func.func @long
// CHECK-NOT: stablehlo.sort
// CHECK: stablehlo.while
// CHECK: "stablehlo.gather"{{.*}}nabla.final
func.func @long(%x: tensor<1000xi32>) -> tensor<1000xi32> {
  %0 = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<1000xi32>) -> tensor<1000xi32>
  return %0 : tensor<1000xi32>
}

// The largest are searched for, each a reduction of keys in which NaN is the largest.
// CHECK-LABEL: func.func @largest
// CHECK-NOT: chlo.top_k
// CHECK-COUNT-2: stablehlo.reduce{{.*}} stablehlo.maximum
func.func @largest(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %v, %i = chlo.top_k(%x, k = 2) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %v, %i : tensor<2xf32>, tensor<2xi32>
}
