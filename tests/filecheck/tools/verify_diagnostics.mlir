// RUN: not nabla-opt %s --verify-diagnostics --split-input-file 2>&1 | filecheck %s

// An annotation that nothing meets, and a diagnostic that no annotation expects, are both errors.
// CHECK: verify_diagnostics.mlir:{{[0-9]+}}:0: error: expected error "something" was not produced
// expected-error@+1 {{something}}
module {}

// -----

// CHECK: verify_diagnostics.mlir:{{[0-9]+}}:8: error: unexpected error: the dialects ad and batch have no operation
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.hessian"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// These are met: above, below, a number of lines, a pattern.
// CHECK-NOT: error
func.func @g(%x: tensor<f32>) -> tensor<f32> {
  // expected-error-re@below {{no operation 'ad.{{[a-z]+}}'}}
  %y = "ad.hessian"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @h(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.hessian"(%x) : (tensor<f32>) -> tensor<f32>
  // expected-error@above {{no operation 'ad.hessian'}}
  return %y : tensor<f32>
}
