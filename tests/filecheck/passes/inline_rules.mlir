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

// A guarded product is 0 where its first factor is, whatever the second one is.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[T:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>)
// CHECK: %[[EMPTY:.*]] = stablehlo.compare EQ, %[[T]]
// CHECK: %[[TC:.*]] = stablehlo.multiply %[[T]], %[[C]]
// CHECK: stablehlo.select %[[EMPTY]], %{{.*}}, %[[TC]]
func.func @product(%t: tensor<f32>, %c: tensor<f32>) -> tensor<f32> {
  %y = "ad.product"(%t, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// So is a guarded quotient where its divisor is. It is NaN where its divisor is infinite.
// CHECK-LABEL: func.func @quotient
// CHECK-SAME: (%[[A:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>)
// CHECK: %[[ZERO:.*]] = stablehlo.subtract %[[Y]], %[[Y]]
// CHECK: %[[AY:.*]] = stablehlo.divide %[[A]], %[[Y]]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[AY]], %[[ZERO]]
// CHECK: %[[EMPTY:.*]] = stablehlo.compare EQ, %[[Y]], %[[ZERO]]
// CHECK: stablehlo.select %[[EMPTY]], %[[ZERO]], %[[SUM]]
func.func @quotient(%a: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %z = "ad.quotient"(%a, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %z : tensor<f32>
}

// A root is one of StableHLO's.
// CHECK-LABEL: func.func @root
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sqrt %[[X]]
// CHECK-NEXT: return %[[Y]]
func.func @root(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.root"(%x) {degree = 2.0 : f64} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
