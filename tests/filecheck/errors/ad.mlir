// RUN: nabla-opt %s --split-input-file --verify-diagnostics
// Every message of the verifier for the operations of `ad`, beyond what the IRDL file says (dialects/irdl_errors.mlir).

func.func @no_return(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.jvp requires a body that ends in stablehlo.return.}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.sine %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @dynamic_shape(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error@below {{ad.jvp requires tensors of static shape, got tensor<?xf32>.}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<?xf32>):
    stablehlo.return %a : tensor<?xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  return %dy : tensor<?xf32>
}

// -----

func.func @repeated_index(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.jvp requires distinct indices in 'wrt', got [0, 0].}}
  %y, %dy = "ad.jvp"(%x, %x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0, 0>, of = array<i64: 0>}
    : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @index_out_of_range(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.vjp requires indices below 1 in 'of', got 1.}}
  %y, %dy = "ad.vjp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 1>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @integers(%x: tensor<i32>) -> tensor<i32> {
  // expected-error@below {{ad.jvp requires a floating-point type at each index of 'wrt', got tensor<i32>.}}
  %y, %dy = "ad.jvp"(%x, %x) ({
  ^bb0(%a: tensor<i32>):
    stablehlo.return %a : tensor<i32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  return %dy : tensor<i32>
}

// -----

func.func @primals(%x: tensor<f32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{ad.jvp requires one operand for each of the 1 arguments of its body, of the same type, got (tensor<f32>, tensor<2xf32>).}}
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<2xf32>):
    stablehlo.return %a : tensor<2xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %dy : tensor<2xf32>
}

// -----

func.func @tangents(%x: tensor<f32>, %t: tensor<2xf32>) -> tensor<f32> {
  // expected-error@below {{ad.jvp requires tangents of types (tensor<f32>), got (tensor<2xf32>).}}
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>)
  return %dy : tensor<f32>
}

// -----

func.func @cotangents(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{ad.vjp requires cotangents of types (tensor<f32>), got ().}}
  %y, %dy = "ad.vjp"(%x) ({
  ^bb0(%a: tensor<2xf32>):
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<2xf32>) -> (tensor<f32>, tensor<2xf32>)
  return %dy : tensor<2xf32>
}

// -----

func.func @results(%x: tensor<f32>) -> tensor<f64> {
  // expected-error@below {{ad.vjp requires results of types (tensor<f32>, tensor<f32>), got (tensor<f32>, tensor<f64>).}}
  %y, %dy = "ad.vjp"(%x, %x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f64>)
  return %dy : tensor<f64>
}
