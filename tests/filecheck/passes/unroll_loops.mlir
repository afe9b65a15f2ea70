// RUN: nabla-opt %s --nabla-unroll-loops | filecheck %s

// 20 steps: two iterations of 8, and four steps behind them.
// CHECK-LABEL: func.func @loop
// CHECK: stablehlo.while
// CHECK-COUNT-8: stablehlo.sine
// CHECK: stablehlo.return
// CHECK-COUNT-4: stablehlo.sine
// CHECK-NOT: stablehlo.sine
func.func @loop(%x: tensor<5xf32>) -> tensor<5xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%k = %i, %y = %x) : tensor<i32>, tensor<5xf32>
  cond {
    %n = stablehlo.constant dense<20> : tensor<i32>
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %s = stablehlo.sine %y : tensor<5xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %m, %s : tensor<i32>, tensor<5xf32>
  }
  return %r#1 : tensor<5xf32>
}

// A loop whose length depends on its values stays.
// CHECK-LABEL: func.func @unknown
// CHECK: stablehlo.while
// CHECK-COUNT-1: stablehlo.sine
// CHECK-NOT: stablehlo.sine
func.func @unknown(%x: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.while(%y = %x) : tensor<f32>
  cond {
    %n = stablehlo.constant dense<0.5> : tensor<f32>
    %c = stablehlo.compare GT, %y, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.sine %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }
  return %r : tensor<f32>
}
