// RUN: nabla-opt %s --nabla-separate-constants | filecheck %s

// One constant is updated and returned: the update gets zeros of its own, which IREE does not know to be constant.
// CHECK-LABEL: func.func @shared
// CHECK: %[[ZERO:.*]]:2 = util.optimization_barrier
// CHECK: %[[ZEROS:.*]] = linalg.fill ins(%[[ZERO]]#0 : f32)
// CHECK: stablehlo.dynamic_update_slice %[[ZEROS]]
func.func @shared(%u: tensor<1xf32>, %i: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %z, %u, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %0, %z : tensor<4xf32>, tensor<4xf32>
}

// Of two copies each has a number of its own, or IREE would make one of them.
// CHECK-LABEL: func.func @updated_twice
// CHECK: arith.constant 1 : i32
// CHECK: arith.constant 2 : i32
// CHECK: return
func.func @updated_twice(%u: tensor<1xf32>, %i: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.dynamic_update_slice %z, %u, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = stablehlo.dynamic_update_slice %z, %u, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Both windows add in place to what IREE fills with their initial value.
// CHECK-LABEL: func.func @windows
// CHECK: %[[FIRST:.*]] = linalg.fill
// CHECK: "stablehlo.reduce_window"(%arg0, %[[FIRST]])
// CHECK: %[[SECOND:.*]] = linalg.fill
// CHECK: "stablehlo.reduce_window"(%arg1, %[[SECOND]])
func.func @windows(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = "stablehlo.reduce_window"(%y, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
