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

// Two pads with one number of 64 bits write into one memory; zeros and shorter numbers are left as they are.
// CHECK-LABEL: func.func @pads
// CHECK: %[[FIRST:.*]] = linalg.fill
// CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %[[FIRST]]
// CHECK: stablehlo.pad %arg0, %[[BITS]]
// CHECK: %[[SECOND:.*]] = linalg.fill
// CHECK: %[[OTHER:.*]] = stablehlo.bitcast_convert %[[SECOND]]
// CHECK: stablehlo.pad %arg1, %[[OTHER]]
// CHECK: stablehlo.pad %arg0, %cst
// CHECK: stablehlo.pad %arg1, %cst
func.func @pads(%x: tensor<4xf64>, %y: tensor<4xf64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<6xf64>, tensor<6xf64>) {
  %one = stablehlo.constant dense<1.0> : tensor<f64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.pad %x, %one, low = [1], high = [0], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<5xf64>
  %1 = stablehlo.pad %y, %one, low = [0], high = [1], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<5xf64>
  %2 = stablehlo.pad %x, %zero, low = [2], high = [0], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
  %3 = stablehlo.pad %y, %zero, low = [0], high = [2], interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
  return %0, %1, %2, %3 : tensor<5xf64>, tensor<5xf64>, tensor<6xf64>, tensor<6xf64>
}
