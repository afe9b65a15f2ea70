// RUN: nabla-opt %s --nabla-verify-lowered --split-input-file --verify-diagnostics

// Plain StableHLO passes.
func.func @lowered(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.sine %x : tensor<f32>
  return %y : tensor<f32>
}

// -----

// IREE would crash on what is left of ours.
func.func @left(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+2 {{lowering requires that no transform is left, got ad.stop_gradient.}}
  // expected-note@+1 {{run nabla-expand and nabla-remove-stop-gradient first.}}
  %y = "ad.stop_gradient"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
