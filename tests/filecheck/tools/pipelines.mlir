// RUN: nabla-opt --list-pipelines | filecheck %s --check-prefix=LIST
// RUN: nabla-opt %s --nabla-iree --dump-pass-pipeline 2>&1 | filecheck %s --check-prefixes=CHECK,CPU
// RUN: nabla-opt %s --nabla-iree='target=vulkan' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefixes=CHECK,VULKAN
// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-lower,nabla-iree{vector-bytes=32})' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=FAST

// LIST: --nabla-iree {{ *}}- Prepare plain StableHLO so that IREE compiles
// LIST-NEXT: --target {{ *}}- kind of device that the module is compiled for
// LIST-NEXT: --vector-bytes
// LIST-NEXT: --triton
// LIST-NEXT: cse {{ *}}Equal operations are rewritten once
// LIST-NEXT: nabla-roll-loops
// LIST-NEXT: nabla-legalize-for-iree
// LIST-NEXT: nabla-schedule {{.*}} (vector-bytes)
// LIST: --nabla-lower

// Options are given once, and reach the passes that have them; some passes are there for some targets.
// CPU: builtin.module(cse,nabla-roll-loops,nabla-verify-supported,nabla-one-device,nabla-forget-empty,nabla-count-loops,nabla-legalize-linalg,
// CPU-SAME: nabla-forget-unique-indices,nabla-read-carries,nabla-sums-in-parts,nabla-fuse-chains,nabla-limit-buffers,nabla-wait-for-loops,nabla-update-in-place,
// VULKAN: nabla-legalize-linalg{target=vulkan}
// VULKAN-SAME: nabla-hold-loop-results,nabla-read-carries,nabla-fuse-chains{target=vulkan},nabla-limit-buffers{target=vulkan},nabla-wait-for-loops,nabla-update-in-place{target=vulkan}
// FAST: builtin.module(nabla-verify,{{.*}}nabla-verify-lowered,cse,
// FAST-SAME: nabla-legalize-linalg{vector-bytes=32}
// FAST-SAME: nabla-schedule-products{vector-bytes=32},nabla-sums-in-parts,cse,nabla-fuse-chains

// CHECK-LABEL: func.func @main
// FAST-LABEL: func.func @main
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.tan %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
