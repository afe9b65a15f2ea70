// RUN: nabla-opt %s --nabla-sparsity | filecheck %s
// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-sparsity{arguments=0})' | filecheck %s --check-prefix=FIRST

// A stencil is boxes: the ends of the slices, and what lies between.
// CHECK-LABEL: func.func @differences
// CHECK-SAME: sparsity.returns = ["2 boxes, up to 2 of 100 columns"]
// CHECK: stablehlo.slice %{{.*}} [1:100] {sparsity.pattern = ["1 box, up to 1 of 100 columns"]}
// CHECK: stablehlo.subtract %{{.*}} {sparsity.pattern = ["2 boxes, up to 2 of 100 columns"]}
func.func @differences(%x: tensor<100xf64>) -> tensor<99xf64> {
  %0 = stablehlo.slice %x [1:100] : (tensor<100xf64>) -> tensor<99xf64>
  %1 = stablehlo.slice %x [0:99] : (tensor<100xf64>) -> tensor<99xf64>
  %2 = stablehlo.subtract %0, %1 : tensor<99xf64>
  return %2 : tensor<99xf64>
}

// Both arguments are columns, one behind the other, or one of them alone.
// CHECK-LABEL: func.func @scaled
// CHECK-SAME: sparsity.returns = ["2 boxes, up to 2 of 6 columns"]
// FIRST-LABEL: func.func @scaled
// FIRST-SAME: sparsity.returns = ["1 box, up to 1 of 3 columns"]
func.func @scaled(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}

// A product with a constant matrix has the pattern of its zeros.
// CHECK-LABEL: func.func @banded
// CHECK-SAME: sparsity.returns = ["5 entries, up to 2 of 3 columns"]
func.func @banded(%x: tensor<3xf64>) -> tensor<3xf64> {
  %m = stablehlo.constant dense<[[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]]> : tensor<3x3xf64>
  %0 = stablehlo.dot_general %m, %x, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}

// A sum joins all, and is named with its line.
// CHECK-LABEL: func.func @centered
// CHECK-SAME: sparsity.dense = ["stablehlo.reduce at {{.*}}sparsity.mlir:[[# @LINE + 4]]"]
// CHECK-SAME: sparsity.returns = ["1 box, up to 3 of 3 columns"]
func.func @centered(%x: tensor<3xf64>) -> tensor<3xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %2 = stablehlo.subtract %x, %1 : tensor<3xf64>
  return %2 : tensor<3xf64>
}

// A loop whose turns are counted is followed: three turns reach three elements ahead.
// CHECK-LABEL: func.func @turns
// CHECK-SAME: sparsity.returns = ["1 box, up to 1 of 100 columns", "none"]
func.func @turns(%x: tensor<100xf64>) -> (tensor<100xf64>, tensor<i64>) {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %end = stablehlo.constant dense<3> : tensor<i64>
  %pad = stablehlo.constant dense<0.0> : tensor<f64>
  %0:2 = stablehlo.while(%s = %x, %i = %zero) : tensor<100xf64>, tensor<i64>
    cond {
      %2 = stablehlo.compare LT, %i, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = stablehlo.pad %s, %pad, low = [-1], high = [1], interior = [0] : (tensor<100xf64>, tensor<f64>) -> tensor<100xf64>
      %3 = stablehlo.add %i, %one : tensor<i64>
      stablehlo.return %2, %3 : tensor<100xf64>, tensor<i64>
    }
  return %0#0, %0#1 : tensor<100xf64>, tensor<i64>
}
