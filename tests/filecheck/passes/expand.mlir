// RUN: nabla-opt %s --nabla-expand --nabla-simplify --nabla-verify-lowered | filecheck %s
// RUN: nabla-opt %s --nabla-expand=simplify=false | filecheck %s --check-prefix=RAW

// The Hessian-vector product of the sum of sin: jvp of vjp. No zeros, no ones, nothing dead.
// CHECK-LABEL: func.func @hvp_sine
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[S:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[V]], %[[S]]
// CHECK-NEXT: %[[H:.*]] = stablehlo.negate %[[P]]
// CHECK-NEXT: return %[[H]]
// Without simplification between the levels the seed of the pullback takes part in the arithmetic.
// RAW-LABEL: func.func @hvp_sine
// RAW: stablehlo.broadcast_in_dim
func.func @hvp_sine(%x: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<3xf32> {
  %g, %hv = "ad.jvp"(%x, %v) ({
  ^bb0(%y: tensor<3xf32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %f, %dy = "ad.vjp"(%y, %one) ({
    ^bb0(%z: tensor<3xf32>):
      %s = stablehlo.sine %z : tensor<3xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> (tensor<f32>, tensor<3xf32>)
    stablehlo.return %dy : tensor<3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %hv : tensor<3xf32>
}

// vmap over v of the Hessian-vector product of |A x|^2, 2 A^T (A v): each product of the shared matrix meets all v at
// once, nothing is copied, and of the unused x nothing is left.
// CHECK-LABEL: func.func @block_of_vectors
// CHECK-SAME: (%{{.*}}: tensor<4xf32>, %[[VS:.*]]: tensor<5x4xf32>, %[[A:.*]]: tensor<3x4xf32>)
// CHECK-NEXT: %[[AV:.*]] = stablehlo.dot_general %[[VS]], %[[A]], contracting_dims = [1] x [1] : {{.*}} -> tensor<5x3xf32>
// CHECK-NEXT: %[[TWICE:.*]] = stablehlo.add %[[AV]], %[[AV]]
// CHECK-NEXT: %[[HV:.*]] = stablehlo.dot_general %[[TWICE]], %[[A]], contracting_dims = [1] x [0] :
// CHECK-NEXT: return %[[HV]]
func.func @block_of_vectors(%x: tensor<4xf32>, %vs: tensor<5x4xf32>, %a: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %h = "batch.vmap"(%vs) ({
  ^bb0(%v: tensor<4xf32>):
    %g, %hv = "ad.jvp"(%x, %v) ({
    ^bb0(%y: tensor<4xf32>):
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %f, %dy = "ad.vjp"(%y, %one) ({
      ^bb0(%z: tensor<4xf32>):
        %r = stablehlo.dot_general %a, %z, contracting_dims = [1] x [0]
          : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
        %rr = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0]
          : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
        stablehlo.return %rr : tensor<f32>
      }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<4xf32>)
      stablehlo.return %dy : tensor<4xf32>
    }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    stablehlo.return %hv : tensor<4xf32>
  }) {axes = ["k"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x4xf32>) -> tensor<5x4xf32>
  return %h : tensor<5x4xf32>
}

// Two maps of equal size stay two axes: each operand carries its own.
// CHECK-LABEL: func.func @nested_maps
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>, %[[Y:.*]]: tensor<2xf32>)
// CHECK-DAG: %[[BX:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [0] : (tensor<2xf32>) -> tensor<2x2xf32>
// CHECK-DAG: %[[BY:.*]] = stablehlo.broadcast_in_dim %[[Y]], dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
// CHECK: %[[Z:.*]] = stablehlo.subtract %[[BX]], %[[BY]] : tensor<2x2xf32>
// CHECK-NEXT: return %[[Z]]
func.func @nested_maps(%xs: tensor<2xf32>, %ys: tensor<2xf32>) -> tensor<2x2xf32> {
  %z = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %row = "batch.vmap"(%ys) ({
    ^bb0(%y: tensor<f32>):
      %d = stablehlo.subtract %x, %y : tensor<f32>
      stablehlo.return %d : tensor<f32>
    }) {axes = ["j"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %row : tensor<2xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}

// The gradient of a mapped function: the captured scale is summed over the mapped axis, the operand is not.
// CHECK-LABEL: func.func @gradient_of_map
// CHECK-SAME: (%[[S:.*]]: tensor<f32>, %[[X:.*]]: tensor<5xf32>, %[[CT:.*]]: tensor<5xf32>)
// CHECK-DAG: %[[B:.*]] = stablehlo.broadcast_in_dim %[[S]]
// CHECK-DAG: %[[DX:.*]] = stablehlo.multiply %[[B]], %[[CT]] : tensor<5xf32>
// CHECK-DAG: %[[P:.*]] = stablehlo.multiply %[[CT]], %[[X]] : tensor<5xf32>
// CHECK: %[[DS:.*]] = stablehlo.reduce(%[[P]] init: {{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT: return %[[DS]], %[[DX]]
func.func @gradient_of_map(%s: tensor<f32>, %x: tensor<5xf32>, %ct: tensor<5xf32>) -> (tensor<f32>, tensor<5xf32>) {
  %y, %ds, %dx = "ad.vjp"(%s, %x, %ct) ({
  ^bb0(%a: tensor<f32>, %b: tensor<5xf32>):
    %m = "batch.vmap"(%b) ({
    ^bb0(%e: tensor<f32>):
      %p = stablehlo.multiply %a, %e : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<5xf32>) -> tensor<5xf32>
    stablehlo.return %m : tensor<5xf32>
  }) {wrt = array<i64: 0, 1>, of = array<i64: 0>}
    : (tensor<f32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>, tensor<5xf32>)
  return %ds, %dx : tensor<f32>, tensor<5xf32>
}

// d/dx (x * d/dy (x * y) at y = x) = d/dx (x * x): %a is captured by the inner level and active in the outer one. If
// the inner level took it for its argument, this would be 4 x.
// CHECK-LABEL: func.func @perturbation
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK-NEXT: %[[TWICE:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-NEXT: return %[[TWICE]]
func.func @perturbation(%x: tensor<f32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %v, %dv = "ad.jvp"(%x, %one) ({
  ^bb0(%a: tensor<f32>):
    %u, %du = "ad.jvp"(%a, %one) ({
    ^bb0(%y: tensor<f32>):
      %0 = stablehlo.multiply %a, %y : tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %1 = stablehlo.multiply %a, %du : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dv : tensor<f32>
}
