// RUN: nabla-opt %s --split-input-file --nabla-transform="apply=hvp entry=loss wrt=0" --nabla-expand --nabla-simplify | filecheck %s
// RUN: nabla-opt %s --split-input-file --nabla-transform="apply=vjp entry=loss wrt=0,1" | filecheck %s --check-prefix=VJP
// RUN: nabla-opt %s --split-input-file --nabla-transform="apply=grad entry=loss" --nabla-transform="apply=vmap entry=loss size=5 in-axes=0,-1" --nabla-expand --nabla-simplify | filecheck %s --check-prefix=MAP
// RUN: nabla-opt %s --split-input-file --nabla-transform="apply=hessian entry=loss" --nabla-expand --nabla-simplify --nabla-verify-lowered | filecheck %s --check-prefix=HESSIAN
// RUN: nabla-opt %s --split-input-file --nabla-transform="apply=jacrev entry=loss wrt=1" --nabla-expand --nabla-simplify --nabla-verify-lowered | filecheck %s --check-prefix=JACREV

// The Hessian-vector product of sum(sin(x) w) in x: -sin(x) w v. The function keeps its name and gets the direction.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[W:.*]]: tensor<3xf32>, %[[V:.*]]: tensor<3xf32>) -> tensor<3xf32>
// CHECK: stablehlo.sine %[[X]]
// CHECK-NOT: stablehlo.reduce
// CHECK: stablehlo.negate
// CHECK-LABEL: func.func private @untouched
// VJP-LABEL: func.func @loss
// VJP-SAME: (%[[X:.*]]: tensor<3xf32>, %[[W:.*]]: tensor<3xf32>, %[[CT:.*]]: tensor<f32>) -> (tensor<f32>, tensor<3xf32>, tensor<3xf32>)
// VJP-NEXT: "ad.vjp"(%[[X]], %[[W]], %[[CT]])
// MAP-LABEL: func.func @loss
// MAP-SAME: (%[[X:.*]]: tensor<5x3xf32>, %[[W:.*]]: tensor<3xf32>) -> tensor<5x3xf32>
// HESSIAN-LABEL: func.func @loss
// HESSIAN-SAME: -> tensor<3x3xf32>
// JACREV-LABEL: func.func @loss
// JACREV: %[[S:.*]] = stablehlo.sine
// JACREV-SAME: tensor<3xf32>
func.func @loss(%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<f32> {
  %s = stablehlo.sine %x : tensor<3xf32>
  %p = stablehlo.multiply %s, %w : tensor<3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
func.func private @untouched(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
