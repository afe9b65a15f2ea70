// RUN: nabla-opt %s --nabla-simplify | filecheck %s

// Neutral elements, signs and constants fold into what is left.
// CHECK-LABEL: func.func @example
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[Z:.*]] = stablehlo.subtract %[[X]], %[[Y]]
// CHECK-NEXT: return %[[Z]]
func.func @example(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %0 = stablehlo.multiply %x, %ones : tensor<3xf32>
  %1 = stablehlo.negate %y : tensor<3xf32>
  %2 = stablehlo.add %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// Equal operations are merged, also where the operands of a commutative one stand in another order.
// CHECK-LABEL: func.func @duplicates
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %{{.*}}
// CHECK-NEXT: stablehlo.divide %[[P]], %[[P]]
func.func @duplicates(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.sine %x : tensor<3xf32>
  %1 = stablehlo.sine %x : tensor<3xf32>
  %2 = stablehlo.multiply %0, %y : tensor<3xf32>
  %3 = stablehlo.multiply %y, %1 : tensor<3xf32>
  %4 = stablehlo.divide %2, %3 : tensor<3xf32>
  return %4 : tensor<3xf32>
}

// Constants that are equal only as numbers (0.0 and -0.0) stay two.
// CHECK-LABEL: func.func @signed_zeros
// CHECK-DAG: dense<0.0{{.*}}>
// CHECK-DAG: dense<-0.0{{.*}}>
func.func @signed_zeros() -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.constant dense<-0.0> : tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// Inside the body of a transform and of a loop it works as well.
// CHECK-LABEL: func.func @nested
// CHECK: "ad.jvp"
// CHECK-NOT: stablehlo.negate
// CHECK: stablehlo.subtract
// CHECK: return
func.func @nested(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    %n = stablehlo.negate %a : tensor<f32>
    %b = stablehlo.add %t, %n : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// Equal reductions are one, wherever they were written.
// CHECK-LABEL: func.func @equal_reductions
// CHECK: %[[SUM:.*]] = stablehlo.reduce
// CHECK-NEXT: return %[[SUM]], %[[SUM]]
func.func @equal_reductions(%x: tensor<3xf32>) -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
