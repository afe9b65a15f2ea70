// RUN: %roundtrip | filecheck %s
// RUN: iree-opt --irdl-file=%dialects/batch.irdl.mlir %s | filecheck %s

// Printed, parsed and printed again; and the same through IREE's own tool, which knows the dialect from its IRDL file.
// CHECK-LABEL: func.func @vmap
// CHECK: "batch.vmap"(%{{.*}}, %{{.*}}) ({
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>):
// CHECK: }) {axes = ["i", "j"], in_axes = [array<i64: 0, 1>, array<i64: 1, 0>], out_axes = [array<i64: 0, 1>], sizes = array<i64: 2, 2>}
// CHECK-SAME: (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
func.func @vmap(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %z = "batch.vmap"(%x, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {axes = ["i", "j"], sizes = array<i64: 2, 2>, in_axes = [array<i64: 0, 1>, array<i64: 1, 0>],
      out_axes = [array<i64: 0, 1>]} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %z : tensor<2x2xf32>
}
