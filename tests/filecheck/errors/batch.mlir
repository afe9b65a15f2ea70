// RUN: nabla-opt %s --split-input-file --verify-diagnostics
// Every message of the verifier for batch.vmap.

func.func @missing(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires the attribute 'axes'.}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @axes(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires 'axes' as a list of names, got [0].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = [0], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @sizes(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires one size per axis, got axes ['i'] and sizes [2, 3].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2, 3>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @names(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-error@below {{batch.vmap requires distinct axis names, got ['i', 'i'].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i", "i"], sizes = array<i64: 2, 2>, in_axes = [array<i64: 0, 1>], out_axes = [array<i64: 0, 1>]}
    : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

func.func @negative(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires sizes that are not negative, got [-2].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: -2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @in_axes_form(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires 'in_axes' as a list of array<i64: ...>, got [0].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [0], out_axes = [array<i64: 0>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @in_axes_count(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires as many operands as the body has and as axes are given for, got 1, 1, 2.}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>, array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @places(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires distinct places below 1 for the 1 axes of operand 0, got [1].}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 1>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @operand_type(%x: tensor<3xf32>) -> tensor<2xf32> {
  // expected-error@below {{batch.vmap requires operand 0 of type tensor<2xf32>, got tensor<3xf32>.}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<3xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @result_type(%x: tensor<2xf32>) -> tensor<f32> {
  // expected-error@below {{batch.vmap requires result 0 of type tensor<2xf32>, got tensor<f32>.}}
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2xf32>) -> tensor<f32>
  return %y : tensor<f32>
}
