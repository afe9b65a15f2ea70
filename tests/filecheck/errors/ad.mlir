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

// -----

func.func @no_name(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_jvp requires a name that is not empty.}}
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0, %a1 : tensor<f32>, tensor<f32>
  }) {name = "", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @custom_wrt(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_jvp requires rising indices below 1 in 'wrt', got [1].}}
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0, %a1 : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 1>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @custom_integer(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_jvp requires floating-point types at 'wrt', got (tensor<i32>).}}
  %y = "ad.custom_jvp"(%n) ({
  ^bb0(%a0: tensor<i32>):
    %c = stablehlo.convert %a0 : (tensor<i32>) -> tensor<f32>
    stablehlo.return %c : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0, %a1 : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<i32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @custom_primal(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_jvp requires a region primal that takes (tensor<f32>), got (tensor<2xf32>).}}
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a0: tensor<2xf32>):
    stablehlo.return %a0 : tensor<2xf32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0, %a1 : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @custom_rule(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_jvp requires a region rule that returns (tensor<f32>, tensor<f32>), got (tensor<f32>).}}
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @custom_bwd(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.custom_vjp requires a region bwd that takes (tensor<f32>), got (tensor<f32>, tensor<f32>).}}
  %y = "ad.custom_vjp"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @solve_region(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.linear_solve requires a region solve that takes (tensor<f32>), got (tensor<2xf32>).}}
  %y = "ad.linear_solve"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<2xf32>):
    stablehlo.return %a0 : tensor<2xf32>
  }, {
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }) {transposable = true} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @solve_results(%x: tensor<f32>, %v: tensor<2xf32>, %n: tensor<i32>) -> tensor<f32> {
  // expected-error@below {{ad.linear_solve requires results of types (tensor<2xf32>), got (tensor<f32>).}}
  %y = "ad.linear_solve"(%v) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }) {transposable = true} : (tensor<2xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @recur_alone(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.recur requires to stand in a rule of the name it has, got 'f'.}}
  %y = "ad.recur"(%x) {name = "f"} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @recur_types(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a0: tensor<f32>):
    stablehlo.return %a0 : tensor<f32>
  }, {
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    // expected-error@below {{ad.recur requires operands of types (tensor<f32>), got (tensor<f32>, tensor<f32>).}}
    %b = "ad.recur"(%a0, %a1) {name = "f"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    stablehlo.return %b, %a1 : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @policy_unknown(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.checkpoint requires policies among nothing_saveable, everything_saveable, dots_saveable, dots_with_no_batch_dims_saveable, save_only_these_names, save_any_names_but_these, save_anything_except_these_names, got all.}}
  %y = "ad.checkpoint"() ({
    stablehlo.return %x : tensor<f32>
  }) {policies = [["all"]], prevent_cse = true, recompute = false} : () -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @policy_form(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.checkpoint requires 'policies' as a list of lists of words, got ["nothing_saveable"].}}
  %y = "ad.checkpoint"() ({
    stablehlo.return %x : tensor<f32>
  }) {policies = ["nothing_saveable"], prevent_cse = true, recompute = false} : () -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @checkpoint_flag(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.checkpoint requires the attribute 'recompute' as true or false, got 1 : i32.}}
  %y = "ad.checkpoint"() ({
    stablehlo.return %x : tensor<f32>
  }) {policies = [["nothing_saveable"]], prevent_cse = true, recompute = 1 : i32} : () -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @stop_gradient(%x: tensor<2xf32>) -> tensor<f32> {
  // expected-error@below {{ad.stop_gradient requires one operand, a tensor of static shape, and a result of its type, got tensor<2xf32>, tensor<f32>.}}
  %y = "ad.stop_gradient"(%x) : (tensor<2xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @name_type(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{ad.name requires one operand, a tensor of static shape, and a result of its type, got tensor<2xf32>, tensor<2xf32>, tensor<2xf32>.}}
  %y = "ad.name"(%x, %x) {name = "a"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @name_attribute(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@below {{ad.name requires the attribute 'name', a string.}}
  %y = "ad.name"(%x) {name = 1} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @product_of_others(%x: tensor<f32>, %y: tensor<2xf32>) -> tensor<f32> {
  // expected-error@below {{ad.product requires 2 operands and one result of the same type, a tensor of static shape, got tensor<f32>, tensor<2xf32>, tensor<f32>.}}
  %z = "ad.product"(%x, %y) : (tensor<f32>, tensor<2xf32>) -> tensor<f32>
  return %z : tensor<f32>
}

// -----

func.func @root_without_degree(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.root requires the attribute 'degree', a float.}}
  %y = "ad.root"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @power_log_without_degree(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.power_log requires the attribute 'degree', a float.}}
  %y = "ad.power_log"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @quotient_of_one(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.quotient requires 2 operands and one result of the same type, a tensor of static shape, got tensor<f32>, tensor<f32>.}}
  %y = "ad.quotient"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @hypot_of_others(%x: tensor<f32>, %y: tensor<f64>) -> tensor<f32> {
  // expected-error@below {{ad.hypot requires 2 operands and one result of the same type, a tensor of static shape, got tensor<f32>, tensor<f64>, tensor<f32>.}}
  %z = "ad.hypot"(%x, %y) : (tensor<f32>, tensor<f64>) -> tensor<f32>
  return %z : tensor<f32>
}

// -----

func.func @slope_of_one(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.slope requires 2 operands and one result of the same type, a tensor of static shape, got tensor<f32>, tensor<f32>.}}
  %y = "ad.slope"(%x) {degree = 2.0 : f64} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @slope_without_degree(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{ad.slope requires the attribute 'degree', a float.}}
  %y = "ad.slope"(%x, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @radial_of_others(%x: tensor<f32>, %y: tensor<f64>) -> tensor<f32> {
  // expected-error@below {{ad.radial requires 2 operands and one result of the same type, a tensor of static shape, got tensor<f32>, tensor<f64>, tensor<f32>.}}
  %z = "ad.radial"(%x, %y) : (tensor<f32>, tensor<f64>) -> tensor<f32>
  return %z : tensor<f32>
}
