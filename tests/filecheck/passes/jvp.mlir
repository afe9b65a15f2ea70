// RUN: nabla-opt %s --nabla-jvp | filecheck %s
// RUN: nabla-opt %s --nabla-jvp --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=LOC

// The body stays, and each operation is followed by its tangent.
// CHECK-LABEL: func.func @sine
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[T:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[X]]
// CHECK-NEXT: %[[DY:.*]] = stablehlo.multiply %[[T]], %[[C]]
// CHECK-NEXT: return %[[Y]], %[[DY]]
// What a pass makes keeps the place of what it was made for.
// LOC-LABEL: func.func @sine
// LOC: stablehlo.sine {{.*}} loc("[[FILE:.*]]":[[LINE:.*]]:10)
// LOC-NEXT: stablehlo.cosine {{.*}} loc("jvp(stablehlo.sine)"("[[FILE]]":[[LINE]]:10))
func.func @sine(%x: tensor<3xf32>, %t: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<3xf32>):
    %b = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %b : tensor<3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %y, %dy : tensor<3xf32>, tensor<3xf32>
}

// %x is the argument and is captured as well: d/dy (x * y) at y = x is x, not 2x.
// CHECK-LABEL: func.func @captured_argument
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK-NEXT: %[[DY:.*]] = stablehlo.multiply %[[X]], %[[T]]
// CHECK-NEXT: return %[[Y]], %[[DY]]
func.func @captured_argument(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %z, %dz = "ad.jvp"(%x, %t) ({
  ^bb0(%y: tensor<f32>):
    %0 = stablehlo.multiply %x, %y : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %z, %dz : tensor<f32>, tensor<f32>
}

// Integers and floor have no tangent, and nothing is emitted for it.
// CHECK-LABEL: func.func @structural_zeros
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %{{.*}}: tensor<i32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT: %[[C:.*]] = stablehlo.convert
// CHECK-NEXT: stablehlo.floor %[[X]]
// CHECK-NEXT: stablehlo.multiply %[[C]], %[[X]]
// CHECK-NEXT: %[[D:.*]] = stablehlo.multiply %[[C]], %[[T]]
// CHECK-NEXT: %[[Q:.*]] = stablehlo.add
// CHECK-NEXT: return %[[Q]], %[[D]]
func.func @structural_zeros(%x: tensor<f32>, %i: tensor<i32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:3 = "ad.jvp"(%x, %i, %t) ({
  ^bb0(%a: tensor<f32>, %j: tensor<i32>):
    %c = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %f = stablehlo.floor %a : tensor<f32>
    %p = stablehlo.multiply %c, %a : tensor<f32>
    %q = stablehlo.add %p, %f : tensor<f32>
    stablehlo.return %q, %j : tensor<f32>, tensor<i32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>}
    : (tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<f32>)
  return %0#0, %0#2 : tensor<f32>, tensor<f32>
}

// Only a result that does not depend on the argument at all needs a zero.
// CHECK-LABEL: func.func @constant_result
// CHECK-NEXT: %[[TWO:.*]] = stablehlo.constant dense<2.0{{.*}}>
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.0{{.*}}>
// CHECK-NEXT: return %[[TWO]], %[[ZERO]]
// LOC-LABEL: func.func @constant_result
// LOC: stablehlo.constant dense<0.0{{.*}} loc("jvp"({{.*}}))
func.func @constant_result(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %z, %dz = "ad.jvp"(%x, %t) ({
  ^bb0(%y: tensor<f32>):
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %z, %dz : tensor<f32>, tensor<f32>
}

// An argument that is returned as it is.
// CHECK-LABEL: func.func @identity
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT: return %[[X]], %[[T]]
func.func @identity(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %z, %dz = "ad.jvp"(%x, %t) ({
  ^bb0(%y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %z, %dz : tensor<f32>, tensor<f32>
}

// The product rule has no term for the stopped factor.
// CHECK-LABEL: func.func @stopped
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK-NEXT: %[[S:.*]] = "ad.stop_gradient"(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = stablehlo.multiply %[[X]], %[[S]]
// CHECK-NEXT: %[[DY:.*]] = stablehlo.multiply %[[T]], %[[S]]
// CHECK-NEXT: return %[[Y]], %[[DY]]
func.func @stopped(%x: tensor<f32>, %t: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %z, %dz = "ad.jvp"(%x, %t) ({
  ^bb0(%y: tensor<f32>):
    %s = "ad.stop_gradient"(%y) : (tensor<f32>) -> tensor<f32>
    %p = stablehlo.multiply %y, %s : tensor<f32>
    stablehlo.return %p : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %z, %dz : tensor<f32>, tensor<f32>
}

// A captured matrix has no tangent: one product for the value, one for the tangent.
// CHECK-LABEL: func.func @linear_map
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<3x4xf32>, %[[T:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: stablehlo.dot_general %[[A]], %[[B]], contracting_dims = [1] x [0]
// CHECK-NEXT: stablehlo.dot_general %[[A]], %[[T]], contracting_dims = [1] x [0]
// CHECK-NEXT: return
func.func @linear_map(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %t: tensor<3x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %z, %dz = "ad.jvp"(%b, %t) ({
  ^bb0(%y: tensor<3x4xf32>):
    %p = stablehlo.dot_general %a, %y, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    stablehlo.return %p : tensor<2x4xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>}
    : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  return %z, %dz : tensor<2x4xf32>, tensor<2x4xf32>
}

// The rule of the user's takes the place of the function; where it calls the function, the whole operation stands again.
// CHECK-LABEL: func.func @custom_rule
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>)
// CHECK: %[[Y:.*]] = "ad.custom_jvp"(%[[X]])
// CHECK: %[[DY:.*]] = stablehlo.multiply %[[Y]], %[[T]]
// CHECK-NEXT: return %[[DY]]
func.func @custom_rule(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%p: tensor<f32>):
    %q = "ad.custom_jvp"(%p) ({
    ^bb0(%a: tensor<f32>):
      %b = stablehlo.exponential %a : tensor<f32>
      stablehlo.return %b : tensor<f32>
    }, {
    ^bb0(%a: tensor<f32>, %s: tensor<f32>):
      %b = "ad.recur"(%a) {name = "f"} : (tensor<f32>) -> tensor<f32>
      %c = stablehlo.multiply %b, %s : tensor<f32>
      stablehlo.return %b, %c : tensor<f32>, tensor<f32>
    }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}
