// RUN: nabla-opt %s --split-input-file --verify-diagnostics
// Every message of the verifier for the operations of the dialect.

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
  // expected-error@below {{batch.vmap requires distinct positions below 1 for the 1 axes of operand 0, got [1].}}
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

// -----

func.func @collective_attribute(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.psum requires the attribute 'axis', a name.}}
    %0 = "batch.psum"(%a) {axis = 0} : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @unbound_axis(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.psum requires an axis of a batch.vmap around it, got 'k' inside {'i': 2}.}}
    %0 = "batch.psum"(%a) {axis = "k"} : (tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @collective_operands(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.psum requires 1 operand and one result, tensors of static shape, got tensor<3xf32>, tensor<3xf32>, tensor<3xf32>.}}
    %0 = "batch.psum"(%a, %a) {axis = "i"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    stablehlo.return %0 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

func.func @index_type(%x: tensor<2x3xf32>) -> tensor<2xi64> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.axis_index requires a result of type tensor<i32>, got tensor<i64>.}}
    %0 = "batch.axis_index"() {axis = "i"} : () -> tensor<i64>
    stablehlo.return %0 : tensor<i64>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2xi64>
  return %y : tensor<2xi64>
}

// -----

func.func @reduction_type(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.pmax requires a result of the type of its operand, got tensor<3xf32>, tensor<f32>.}}
    %0 = "batch.pmax"(%a) {axis = "i"} : (tensor<3xf32>) -> tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @gather_attribute(%x: tensor<2x3xf32>) -> tensor<2x2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.all_gather requires the attribute 'dimension', an integer.}}
    %0 = "batch.all_gather"(%a) {axis = "i"} : (tensor<3xf32>) -> tensor<2x3xf32>
    stablehlo.return %0 : tensor<2x3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
  return %y : tensor<2x2x3xf32>
}

// -----

func.func @gather_dimension(%x: tensor<2x3xf32>) -> tensor<2x2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.all_gather requires a dimension of its rank 2, got 2.}}
    %0 = "batch.all_gather"(%a) {axis = "i", dimension = 2 : i64} : (tensor<3xf32>) -> tensor<2x3xf32>
    stablehlo.return %0 : tensor<2x3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
  return %y : tensor<2x2x3xf32>
}

// -----

func.func @gather_type(%x: tensor<2x3xf32>) -> tensor<2x2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.all_gather requires result of type tensor<3x2xf32>, got tensor<2x3xf32>.}}
    %0 = "batch.all_gather"(%a) {axis = "i", dimension = 1 : i64} : (tensor<3xf32>) -> tensor<2x3xf32>
    stablehlo.return %0 : tensor<2x3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
  return %y : tensor<2x2x3xf32>
}

// -----

func.func @scatter_type(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.psum_scatter requires operand of type tensor<2xf32>, got tensor<3xf32>.}}
    %0 = "batch.psum_scatter"(%a) {axis = "i", dimension = 0 : i64} : (tensor<3xf32>) -> tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @smallest_type(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    // expected-error@below {{batch.pmin requires a result of the type of its operand, got tensor<3xf32>, tensor<f32>.}}
    %0 = "batch.pmin"(%a) {axis = "i"} : (tensor<3xf32>) -> tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @smallest_axis(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@below {{batch.pmin requires an axis of a batch.vmap around it, got 'i' inside {}.}}
  %0 = "batch.pmin"(%x) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
