// RUN: nabla-opt %s --nabla-stop-shifts | filecheck %s

// The maximum cancels: e^(x - m) / sum(e^(x - m)).
// CHECK-LABEL: func.func @softmax
// CHECK: %[[M:.*]] = stablehlo.reduce(%arg0
// CHECK-NEXT: %[[S:.*]] = "ad.stop_gradient"(%[[M]])
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[S]]
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %d = stablehlo.subtract %x, %mb : tensor<3x4xf32>
  %e = stablehlo.exponential %d : tensor<3x4xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %y = stablehlo.divide %e, %sb : tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// It is added again: log(sum(e^(x - m))) + m.
// CHECK-LABEL: func.func @logsumexp
// CHECK: %[[M:.*]] = stablehlo.reduce(%arg0
// CHECK-NEXT: %[[S:.*]] = "ad.stop_gradient"(%[[M]])
// CHECK: stablehlo.add %{{.*}}, %[[S]]
func.func @logsumexp(%x: tensor<3x4xf32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
  %mr = stablehlo.reshape %m : (tensor<4xf32>) -> tensor<1x4xf32>
  %mb = stablehlo.broadcast_in_dim %mr, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %d = stablehlo.subtract %x, %mb : tensor<3x4xf32>
  %e = stablehlo.exponential %d : tensor<3x4xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = stablehlo.log %s : tensor<4xf32>
  %y = stablehlo.add %l, %m : tensor<4xf32>
  return %y : tensor<4xf32>
}

// It does not cancel: the sum runs over other rows, another maximum is added, or the difference is returned too.
// CHECK-LABEL: func.func @others
// CHECK-NOT: ad.stop_gradient
func.func @others(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %d = stablehlo.subtract %x, %mb : tensor<4x4xf32>
  %e = stablehlo.exponential %d : tensor<4x4xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %l = stablehlo.log %s : tensor<4xf32>
  %y = stablehlo.add %l, %m : tensor<4xf32>
  %n = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %nb = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  %d2 = stablehlo.subtract %x, %nb : tensor<4x4xf32>
  %e2 = stablehlo.exponential %d2 : tensor<4x4xf32>
  %s2 = stablehlo.reduce(%e2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %l2 = stablehlo.log %s2 : tensor<4xf32>
  %y2 = stablehlo.add %l2, %w : tensor<4xf32>
  return %y, %y2, %d : tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>
}
