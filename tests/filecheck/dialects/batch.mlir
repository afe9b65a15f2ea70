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

// Collectives read all entries of an axis of a map around them.
// CHECK-LABEL: func.func @collectives
// CHECK: "batch.psum"(%{{.*}}) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: "batch.pmax"(%{{.*}}) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: "batch.pmin"(%{{.*}}) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT: "batch.all_gather"(%{{.*}}) {axis = "i", dimension = 1 : i64} : (tensor<3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: "batch.psum_scatter"(%{{.*}}) {axis = "i", dimension = 1 : i64} : (tensor<3x2xf32>) -> tensor<3xf32>
// CHECK-NEXT: "batch.axis_index"() {axis = "i"} : () -> tensor<i32>
func.func @collectives(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = "batch.vmap"(%x) ({
  ^bb0(%a: tensor<3xf32>):
    %0 = "batch.psum"(%a) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
    %1 = "batch.pmax"(%0) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
    %2 = "batch.pmin"(%1) {axis = "i"} : (tensor<3xf32>) -> tensor<3xf32>
    %3 = "batch.all_gather"(%2) {axis = "i", dimension = 1 : i64} : (tensor<3xf32>) -> tensor<3x2xf32>
    %4 = "batch.psum_scatter"(%3) {axis = "i", dimension = 1 : i64} : (tensor<3x2xf32>) -> tensor<3xf32>
    %5 = "batch.axis_index"() {axis = "i"} : () -> tensor<i32>
    stablehlo.return %4 : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
