// RUN: nabla-opt %s --nabla-verify-supported --split-input-file --verify-diagnostics

// What a pass writes otherwise is left to it.
func.func @supported(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{stablehlo.custom_call requires a known target, got 'other'}}
  %0 = stablehlo.custom_call @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
