// RUN: nabla-opt %s --nabla-vjp | filecheck %s
// RUN: nabla-opt %s --nabla-vjp --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=LOC

// The body stays, and the cotangents follow it in reverse.
// CHECK-LABEL: func.func @sine
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[CT:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[X]]
// CHECK-NEXT: %[[DX:.*]] = stablehlo.multiply %[[CT]], %[[C]]
// CHECK-NEXT: return %[[Y]], %[[DX]]
// LOC-LABEL: func.func @sine
// LOC: stablehlo.sine {{.*}} loc("[[FILE:.*]]":[[LINE:.*]]:10)
// LOC-NEXT: stablehlo.cosine {{.*}} loc("vjp(stablehlo.sine)"("[[FILE]]":[[LINE]]:10))
func.func @sine(%x: tensor<3xf32>, %ct: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y, %dx = "ad.vjp"(%x, %ct) ({
  ^bb0(%a: tensor<3xf32>):
    %b = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %b : tensor<3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %y, %dx : tensor<3xf32>, tensor<3xf32>
}

// %x is the argument and is captured as well: d/dy (x * y) at y = x is x, not 2x.
// CHECK-LABEL: func.func @captured_argument
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NEXT: %[[DX:.*]] = stablehlo.multiply %[[X]], %[[CT]]
// CHECK-NEXT: return %[[DX]]
func.func @captured_argument(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %z, %dz = "ad.vjp"(%x, %ct) ({
  ^bb0(%y: tensor<f32>):
    %0 = stablehlo.multiply %x, %y : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dz : tensor<f32>
}

// The cotangents of a value with two uses are summed; the value itself is dead here and goes.
// CHECK-LABEL: func.func @two_uses
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-DAG: %[[TWICE:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-DAG: %[[L:.*]] = stablehlo.multiply %[[CT]], %[[TWICE]]
// CHECK-DAG: %[[DX:.*]] = stablehlo.add %[[CT]], %[[L]]
// CHECK-NEXT: return %[[DX]]
func.func @two_uses(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %z, %dz = "ad.vjp"(%x, %ct) ({
  ^bb0(%y: tensor<f32>):
    %0 = stablehlo.multiply %y, %y : tensor<f32>
    %1 = stablehlo.add %y, %0 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dz : tensor<f32>
}

// The transpose of a broadcast sums over the axes that it added, and over no others.
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: (%{{.*}}: tensor<3xf32>, %[[CT:.*]]: tensor<2x3xf32>)
// CHECK: %[[DX:.*]] = stablehlo.reduce(%[[CT]] init: {{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT: return %[[DX]]
func.func @broadcast(%x: tensor<3xf32>, %ct: tensor<2x3xf32>) -> tensor<3xf32> {
  %z, %dz = "ad.vjp"(%x, %ct) ({
  ^bb0(%y: tensor<3xf32>):
    %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    stablehlo.return %0 : tensor<2x3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  return %dz : tensor<3xf32>
}

// What is not in `wrt` and what does not reach `of` is not pulled back: there is no derivative of the cosine.
// CHECK-LABEL: func.func @partly_active
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[W:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK-NEXT: %[[C:.*]] = stablehlo.cosine %[[W]]
// CHECK-NEXT: %[[CS:.*]] = stablehlo.multiply %[[CT]], %[[C]]
// CHECK-NEXT: %[[D:.*]] = stablehlo.cosine %[[X]]
// CHECK-NEXT: %[[DX:.*]] = stablehlo.multiply %[[CS]], %[[D]]
// CHECK-NEXT: return %[[DX]]
func.func @partly_active(%x: tensor<f32>, %w: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %y, %c, %dx = "ad.vjp"(%x, %w, %ct) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.sine %a : tensor<f32>
    %c = stablehlo.cosine %b : tensor<f32>
    %p = stablehlo.multiply %s, %c : tensor<f32>
    stablehlo.return %p, %c : tensor<f32>, tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>}
    : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return %dx : tensor<f32>
}

// An argument that the result does not depend on has a zero cotangent.
// CHECK-LABEL: func.func @unreached
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.0{{.*}}>
// CHECK-NEXT: return %[[ZERO]]
// LOC-LABEL: func.func @unreached
// LOC: stablehlo.constant dense<0.0{{.*}} loc("vjp"({{.*}}))
func.func @unreached(%x: tensor<f32>, %w: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %y, %dx = "ad.vjp"(%x, %ct) ({
  ^bb0(%a: tensor<f32>):
    %s = stablehlo.sine %w : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dx : tensor<f32>
}

// The transpose of a product contracts the free axes of the other factor, and transposes no data.
// CHECK-LABEL: func.func @linear_map
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %{{.*}}: tensor<3x4xf32>, %[[CT:.*]]: tensor<2x4xf32>)
// CHECK-NEXT: %[[DB:.*]] = stablehlo.dot_general %[[A]], %[[CT]], contracting_dims = [0] x [0]
// CHECK-NEXT: return %[[DB]]
func.func @linear_map(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %ct: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %z, %dz = "ad.vjp"(%b, %ct) ({
  ^bb0(%y: tensor<3x4xf32>):
    %p = stablehlo.dot_general %a, %y, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    stablehlo.return %p : tensor<2x4xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>}
    : (tensor<3x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>)
  return %dz : tensor<3x4xf32>
}

// The backward pass of a checkpointed region is a region that computes it again; what the policy keeps is a result.
// CHECK-LABEL: func.func @checkpoint
// CHECK-SAME: (%[[X:.*]]: tensor<f32>, %[[CT:.*]]: tensor<f32>)
// CHECK: "ad.checkpoint"() ({
// CHECK: stablehlo.sine %[[X]]
// CHECK: stablehlo.cosine
// CHECK: }) {policies = {{\[\[}}"nothing_saveable"{{\]\]}}, prevent_cse = true, recompute = true} : () -> tensor<f32>
// CHECK: return
func.func @checkpoint(%x: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %y, %dx = "ad.vjp"(%x, %ct) ({
  ^bb0(%p: tensor<f32>):
    %q = "ad.checkpoint"() ({
      %a = stablehlo.sine %p : tensor<f32>
      %b = stablehlo.sine %a : tensor<f32>
      stablehlo.return %b : tensor<f32>
    }) {policies = [["nothing_saveable"]], prevent_cse = true, recompute = false} : () -> tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dx : tensor<f32>
}
