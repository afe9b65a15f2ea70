// RUN: nabla-opt %s --nabla-inline-rules | filecheck %s

// Where no derivative is left to be taken, a function with a rule is the function.
// CHECK-LABEL: func.func @value
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.exponential %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @value(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.exponential %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }, {
  ^bb0(%a: tensor<f32>, %t: tensor<f32>):
    %b = "ad.recur"(%a) {name = "f"} : (tensor<f32>) -> tensor<f32>
    %c = stablehlo.multiply %b, %t : tensor<f32>
    stablehlo.return %b, %c : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// A linear solve is its solver.
// CHECK-LABEL: func.func @solver
// CHECK-SAME: (%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>)
// CHECK-NEXT: %[[X:.*]] = stablehlo.divide %[[B]], %[[A]]
// CHECK-NEXT: return %[[X]]
func.func @solver(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %x = "ad.linear_solve"(%b) ({
  ^bb0(%v: tensor<f32>):
    %0 = stablehlo.multiply %a, %v : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }, {
  ^bb0(%v: tensor<f32>):
    %0 = stablehlo.divide %v, %a : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }, {
  ^bb0(%v: tensor<f32>):
    stablehlo.return %v : tensor<f32>
  }) {transposable = false} : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}

// A recomputation of reverse mode stays one: its inputs pass a barrier. Names are dropped.
// CHECK-LABEL: func.func @recomputed
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[HELD:.*]] = stablehlo.optimization_barrier %[[X]]
// CHECK-NEXT: %[[AGAIN:.*]] = stablehlo.sine %[[HELD]]
// CHECK-NEXT: return %[[Y]], %[[AGAIN]]
func.func @recomputed(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %y = "ad.checkpoint"() ({
    %a = stablehlo.sine %x : tensor<f32>
    %b = "ad.name"(%a) {name = "b"} : (tensor<f32>) -> tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {policies = [["nothing_saveable"]], prevent_cse = true, recompute = false} : () -> tensor<f32>
  %z = "ad.checkpoint"() ({
    %a = stablehlo.sine %x : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }) {policies = [["nothing_saveable"]], prevent_cse = true, recompute = true} : () -> tensor<f32>
  return %y, %z : tensor<f32>, tensor<f32>
}
