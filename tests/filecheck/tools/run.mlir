// Numbers: of the module as it stands, with its regions, and after passes, which must not change them.
// RUN: nabla-opt %s --run --entry=slope --input='[0, 0.5, 2]' | filecheck %s --check-prefix=SLOPE
// RUN: nabla-opt %s --nabla-lower --check-values --run --entry=slope --input='[0, 0.5, 2]' | filecheck %s --check-prefix=SLOPE
// RUN: nabla-opt %s --nabla-vmap --check-values --run --entry=sums | filecheck %s --check-prefix=SUMS
// RUN: not nabla-opt %s --run --entry=slopes 2>&1 | filecheck %s --check-prefix=ENTRY
// RUN: nabla-opt %s --nabla-lower --check-values --run | filecheck %s --check-prefix=SUMS
// RUN: not nabla-opt %s --run --entry=slope --input='[0, 0.5]' 2>&1 | filecheck %s --check-prefix=SHAPE

// SLOPE: slope 0: float64[3] = [0.0, 0.25, 4.0]
// SLOPE-NEXT: slope 1: float64[3] = [0.0, 1.0, 4.0]
func.func @slope(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %one = stablehlo.constant dense<1.0> : tensor<3xf64>
  %y, %dy = "ad.jvp"(%x, %one) ({
  ^bb0(%a: tensor<3xf64>):
    %b = stablehlo.multiply %a, %a : tensor<3xf64>
    stablehlo.return %b : tensor<3xf64>
  }) {wrt = array<i64: 0>, of = array<i64: 0>} : (tensor<3xf64>, tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>)
  return %y, %dy : tensor<3xf64>, tensor<3xf64>
}

// SUMS: sums 0: int32[2] = [{{[0-9]+}}, {{[0-9]+}}]
func.func @sums(%x: tensor<2x3xi32>) -> tensor<2xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %s = "batch.vmap"(%x) ({
  ^bb0(%r: tensor<3xi32>):
    %t = stablehlo.reduce(%r init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
    stablehlo.return %t : tensor<i32>
  }) {axes = ["i"], sizes = array<i64: 2>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]} : (tensor<2x3xi32>) -> tensor<2xi32>
  return %s : tensor<2xi32>
}

// ENTRY: error: --entry requires a function of the module, got slopes among slope, sums.
// SHAPE: error: --input requires float64[3] for arg0, got float64[2].
