// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-legalize-for-iree{target=cpu})' | filecheck %s

// A cube is two products: IREE would compute exp(3 log x), which is NaN for a negative x.
// CHECK-LABEL: func.func @cube
func.func @cube(%x: tensor<4xf64>) -> tensor<4xf64> {
  // CHECK-NOT: stablehlo.power
  // CHECK: %[[SQUARE:.*]] = stablehlo.multiply %arg0, %arg0
  // CHECK: stablehlo.multiply %[[SQUARE]], %arg0
  %n = stablehlo.constant dense<3.0> : tensor<4xf64>
  %r = stablehlo.power %x, %n : tensor<4xf64>
  return %r : tensor<4xf64>
}

// i1 is added modulo 2 by IREE; StableHLO says or.
// CHECK-LABEL: func.func @either
func.func @either(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  // CHECK: stablehlo.or %arg0, %arg1
  %r = stablehlo.add %x, %y : tensor<4xi1>
  return %r : tensor<4xi1>
}

// What IREE does right stays.
// CHECK-LABEL: func.func @right
func.func @right(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: stablehlo.exponential %arg0
  %r = stablehlo.exponential %x : tensor<4xf32>
  return %r : tensor<4xf32>
}
