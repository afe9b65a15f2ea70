// RUN: not nabla-opt %s --pass-pipeline='builtin.module(nabla-sparsity{arguments=1})' 2>&1 | filecheck %s

// The columns are elements that can be differentiated.
// CHECK: nabla-sparsity requires arguments of floating point among [0], got (1,).
func.func @taken(%x: tensor<3xf64>, %i: tensor<i32>) -> tensor<3xf64> {
  return %x : tensor<3xf64>
}
