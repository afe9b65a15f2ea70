// RUN: iree-opt --irdl-file=%dialects/ad.irdl.mlir %s --split-input-file --verify-diagnostics
// RUN: nabla-opt %s --split-input-file --verify-diagnostics
// What the IRDL file refuses, our verifier refuses at the same place, in its own words (behind the bar).

func.func @missing_attribute(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{{{attribute "of" is expected|requires the attribute 'of'}}}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @wrong_attribute(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{{{expected base attribute|requires 'wrt' as array<i64: ...>, got 0 : i64}}}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = 0, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @two_blocks(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{{{expected region 0 to have 1 block|requires a region of one block, got 2}}}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  ^bb1:
    stablehlo.return %x : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @two_regions(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{{{unexpected number of regions|requires one region, got 2}}}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }, {
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @unknown_operation(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{{{unregistered operation 'ad.transpose'|ad and batch have no operation 'ad.transpose'}}}}
  %y = "ad.transpose"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @not_a_tensor(%x: f32) -> f32 {
  // expected-error-re@below {{{{expected base type 'builtin.tensor'|ad.stop_gradient requires one operand, a tensor}}}}
  %y = "ad.stop_gradient"(%x) : (f32) -> f32
  return %y : f32
}

// -----

func.func @another_type(%x: tensor<3xf32>) -> tensor<f32> {
  // expected-error-re@below {{{{expected 'tensor<3xf32>'|a result of its type, got tensor<3xf32>, tensor<f32>}}}}
  %y = "ad.stop_gradient"(%x) : (tensor<3xf32>) -> tensor<f32>
  return %y : tensor<f32>
}
