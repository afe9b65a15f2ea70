// RUN: nabla-opt %s --nabla-jvp --nabla-vjp --nabla-vmap --split-input-file --verify-diagnostics
// Every message of the passes that expand transforms.

func.func @transform_inside(%x: tensor<2xf32>, %ts: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+2 {{nabla-jvp requires a body without other transforms, got batch.vmap inside ad.jvp.}}
  // expected-note@+1 {{run nabla-expand, which expands all of them innermost first.}}
  %y, %dy = "ad.jvp"(%x, %ts) ({
  ^bb0(%a: tensor<2xf32>):
    %m = "batch.vmap"(%a) ({
    ^bb0(%b: tensor<f32>):
      %c = stablehlo.sine %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
      : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %m : tensor<2xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %dy : tensor<2xf32>
}

// -----

func.func @result_varies(%x: tensor<2xf32>) -> tensor<f32> {
  // expected-error@+2 {{batch.vmap requires a position for every axis that a result varies over, got -1 for axis 'i' of result 0, which does vary.}}
  // expected-note@+1 {{give this result an out axis, or reduce over the axis.}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.sine %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: -1>]}
    : (tensor<2xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// The place is that of the operation without a rule, not that of the transform around it.
func.func @no_record(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    // expected-error@+2 {{jvp requires a rule for every operation, got 'math.sin': the operation is not in the table.}}
    // expected-note@+1 {{wrap the value with nm.stop_gradient, or add the rule to the record in nabla_mlir/ops.}}
    %b = math.sin %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @no_record_vjp(%x: tensor<f32>, %t: tensor<f32>) -> tensor<f32> {
  %y, %dy = "ad.vjp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    // expected-error@+2 {{jvp requires a rule for every custom call, got the target 'somebody', which has none.}}
    // expected-note@+1 {{add it with nm.register_custom_call.}}
    %b = stablehlo.custom_call @somebody(%a) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @no_record_vmap(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    // expected-error@+2 {{vmap requires a rule for every custom call, got the target 'somebody', which has none.}}
    // expected-note@+1 {{add it with nm.register_custom_call.}}
    %b = stablehlo.custom_call @somebody(%a) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %b : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
