// RUN: %roundtrip | filecheck %s
// RUN: iree-opt --irdl-file=%dialects/ad.irdl.mlir %s | filecheck %s

// Printed, parsed and printed again; and the same through IREE's own tool, which knows the dialect from its IRDL file.
// CHECK-LABEL: func.func @jvp
// CHECK: "ad.jvp"(%{{.*}}, %{{.*}}) ({
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<3xf32>):
// CHECK: }) {of = array<i64: 0>, wrt = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
func.func @jvp(%x: tensor<3xf32>, %t: tensor<3xf32>) -> tensor<3xf32> {
  %y, %dy = "ad.jvp"(%x, %t) ({
  ^bb0(%a: tensor<3xf32>):
    %b = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %b : tensor<3xf32>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %dy : tensor<3xf32>
}

// CHECK-LABEL: func.func @vjp
// CHECK: "ad.vjp"(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK: }) {of = array<i64: 0>, wrt = array<i64: 1>} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
func.func @vjp(%x: tensor<f32>, %w: tensor<f32>, %ct: tensor<f32>) -> tensor<f32> {
  %y, %dw = "ad.vjp"(%x, %w, %ct) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {wrt = array<i64: 1>, of = array<i64: 0>} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dw : tensor<f32>
}

// CHECK-LABEL: func.func @stop_gradient
// CHECK: "ad.stop_gradient"(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
func.func @stop_gradient(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = "ad.stop_gradient"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// CHECK-LABEL: func.func @custom_jvp
// CHECK: "ad.custom_jvp"(%{{.*}}) ({
// CHECK: "ad.recur"(%{{.*}}) {name = "f"} : (tensor<f32>) -> tensor<f32>
// CHECK: }) {name = "f", of = array<i64: 0>, wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
func.func @custom_jvp(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.custom_jvp"(%x) ({
  ^bb0(%a: tensor<f32>):
    %b = stablehlo.exponential %a : tensor<f32>
    stablehlo.return %b : tensor<f32>
  }, {
  ^bb0(%a: tensor<f32>, %t: tensor<f32>):
    %b = "ad.recur"(%a) {name = "f"} : (tensor<f32>) -> tensor<f32>
    %c = stablehlo.multiply %b, %t : tensor<f32>
    stablehlo.return %b, %c : tensor<f32>, tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func.func @custom_vjp
// CHECK: "ad.custom_vjp"(%{{.*}}) ({
// CHECK: }) {name = "f", of = array<i64: 0>, wrt = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
func.func @custom_vjp(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.custom_vjp"(%x) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }, {
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }, {
  ^bb0(%ct: tensor<f32>):
    %c = stablehlo.negate %ct : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {name = "f", wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func.func @linear_solve
// CHECK: "ad.linear_solve"(%{{.*}}) ({
// CHECK: }) {transposable = true} : (tensor<f32>) -> tensor<f32>
func.func @linear_solve(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %x = "ad.linear_solve"(%b) ({
  ^bb0(%v: tensor<f32>):
    %0 = stablehlo.multiply %a, %v : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }, {
  ^bb0(%v: tensor<f32>):
    %0 = stablehlo.divide %v, %a : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }, {
  ^bb0(%v: tensor<f32>):
    %0 = stablehlo.divide %v, %a : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) {transposable = true} : (tensor<f32>) -> tensor<f32>
  return %x : tensor<f32>
}

// CHECK-LABEL: func.func @checkpoint
// CHECK: "ad.checkpoint"() ({
// CHECK: "ad.name"(%{{.*}}) {name = "a"} : (tensor<f32>) -> tensor<f32>
// CHECK: }) {policies = {{\[\[}}"save_only_these_names", "a"{{\]\]}}, prevent_cse = true, recompute = false} : () -> tensor<f32>
func.func @checkpoint(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.checkpoint"() ({
    %a = "ad.name"(%x) {name = "a"} : (tensor<f32>) -> tensor<f32>
    stablehlo.return %a : tensor<f32>
  }) {policies = [["save_only_these_names", "a"]], prevent_cse = true, recompute = false} : () -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: func.func @guards
// CHECK: "ad.root"(%{{.*}}) {degree = 2.000000e+00 : f64} : (tensor<f32>) -> tensor<f32>
// CHECK: "ad.product"
// CHECK: "ad.quotient"
// CHECK: "ad.slope"(%{{.*}}, %{{.*}}) {degree = 2.000000e+00 : f64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: "ad.radial"
// CHECK: "ad.hypot"
// CHECK: "ad.power_log"(%{{.*}}, %{{.*}}) {degree = 1.000000e+00 : f64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
func.func @guards(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.root"(%x) {degree = 2.0 : f64} : (tensor<f32>) -> tensor<f32>
  %z = "ad.product"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %w = "ad.quotient"(%x, %z) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %s = "ad.slope"(%w, %y) {degree = 2.0 : f64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %r = "ad.radial"(%s, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %v = "ad.hypot"(%x, %r) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %u = "ad.power_log"(%x, %v) {degree = 1.0 : f64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %u : tensor<f32>
}
