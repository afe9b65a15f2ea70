// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-dce,func.func(cse))' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefixes=CHECK,PIPELINE
// RUN: nabla-opt %s -nabla-dce --cse --mlir-print-ir-before-all --mlir-print-ir-after-all -o /dev/null 2>&1 | filecheck %s --check-prefix=ALL
// RUN: nabla-opt - --nabla-dce --nabla-jvp --mlir-print-ir-after-change --mlir-timing -o /dev/null < %s 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: nabla-opt %s --mlir-print-op-generic --mlir-print-debuginfo --mlir-print-local-scope | filecheck %s --check-prefix=PRINT
// RUN: nabla-opt %s --emit-bytecode -o %t.mlirbc
// RUN: nabla-opt %t.mlirbc --nabla-dce --verify-each=false | filecheck %s

// PIPELINE: Pass Manager with 2 passes:
// PIPELINE-NEXT: builtin.module(nabla-dce,func.func(cse))

// ALL: IR Dump Before DcePass: nabla-dce
// ALL: stablehlo.cosine
// ALL: IR Dump After DcePass: nabla-dce
// ALL-NOT: stablehlo.cosine
// ALL: IR Dump Before CSEPass: cse
// ALL: IR Dump After CSEPass: cse

// A pass that changes nothing prints nothing.
// CHANGE: IR Dump After DcePass
// CHANGE-NOT: IR Dump After JvpPass
// CHANGE: Execution time report
// CHANGE: DcePass

// PRINT: "func.func"()
// PRINT: "stablehlo.sine"(%{{.*}}) : (tensor<f32>) -> tensor<f32> loc("{{.*}}flags.mlir":{{[0-9]+}}:8)

// CHECK-LABEL: func.func @f
// CHECK-NEXT: stablehlo.sine
// CHECK-NEXT: return
func.func @f(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.cosine %x : tensor<f32>
  %1 = stablehlo.sine %x : tensor<f32>
  return %1 : tensor<f32>
}
