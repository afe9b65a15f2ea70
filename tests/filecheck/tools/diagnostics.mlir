// RUN: not nabla-opt %s --split-input-file > %t.out 2> %t.err
// RUN: filecheck %s --check-prefix=ERR < %t.err
// RUN: filecheck %s --check-prefix=OUT < %t.out

// The parts of a file are independent: those that are right are printed, and each error has its place in the file.
// OUT-LABEL: func.func @first
// OUT: // -----
// OUT-LABEL: func.func @last
func.func @first(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// ERR: diagnostics.mlir:{{[0-9]+}}:8: error: custom op 'no_such' is unknown (tried 'func.no_such' as well)
// ERR-NEXT: %y = no_such %x
func.func @does_not_parse(%x: tensor<f32>) -> tensor<f32> {
  %y = no_such %x : tensor<f32>
  return %y : tensor<f32>
}

// -----

// ERR: diagnostics.mlir:{{[0-9]+}}:3: error: {{.*}}
// ERR: diagnostics.mlir:{{[0-9]+}}:3: note: see current operation:
func.func @does_not_verify(%x: tensor<f32>) -> tensor<2xf32> {
  return %x : tensor<f32>
}

// -----

// ERR: diagnostics.mlir:{{[0-9]+}}:8: error: an operation requires a dialect that is registered, got 'somebody.op'.
// ERR: note: use --allow-unregistered-dialect if this is intended.
func.func @unregistered(%x: tensor<f32>) -> tensor<f32> {
  %y = "somebody.op"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// ERR: diagnostics.mlir:{{[0-9]+}}:8: error: the dialects ad and batch have no operation 'ad.hessian'.
// ERR-NOT: Traceback
func.func @unknown_operation(%x: tensor<f32>) -> tensor<f32> {
  %y = "ad.hessian"(%x) : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @last(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
