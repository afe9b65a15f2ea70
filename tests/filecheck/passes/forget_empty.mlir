// RUN: nabla-opt %s --nabla-forget-empty | filecheck %s

// However a value without elements is computed, it is this one, also where a loop carries it; what else a loop makes stays.
// CHECK-LABEL: func.func @loop
// CHECK: %[[EMPTY:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x0xf32>
// CHECK: %[[LOOP:.*]]:2 = stablehlo.while({{.*}}, %{{.*}} = %[[EMPTY]])
// CHECK-NOT: stablehlo.tanh
// CHECK: stablehlo.return %{{.*}}, %[[EMPTY]]
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[EMPTY]]
// CHECK: return %[[EMPTY]], %[[LOOP]]#0, %[[SUM]]
func.func @loop(%x: tensor<2x0xf32>, %n: tensor<i32>) -> (tensor<2x0xf32>, tensor<i32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %start = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %start, %y = %x) : tensor<i32>, tensor<2x0xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.tanh %y : tensor<2x0xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<2x0xf32>
  }
  %3 = stablehlo.reduce(%0#1 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x0xf32>, tensor<f32>) -> tensor<f32>
  return %0#1, %0#0, %3 : tensor<2x0xf32>, tensor<i32>, tensor<f32>
}

// A loop of which nothing else is read is gone, and values with elements are left alone.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: stablehlo.exponential
// CHECK: %[[EMPTY:.*]] = stablehlo.constant
// CHECK-NEXT: %[[NEGATIVE:.*]] = stablehlo.negate %arg1
// CHECK-NEXT: return %[[EMPTY]], %[[NEGATIVE]]
func.func @nothing(%x: tensor<0xf64>, %y: tensor<3xf64>) -> (tensor<0xf64>, tensor<3xf64>) {
  %0 = stablehlo.exponential %x : tensor<0xf64>
  %1 = stablehlo.negate %y : tensor<3xf64>
  return %0, %1 : tensor<0xf64>, tensor<3xf64>
}
