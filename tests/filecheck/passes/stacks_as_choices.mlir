// RUN: nabla-opt %s --nabla-stacks-as-choices | filecheck %s

// A pair is a choice by index.
// CHECK-LABEL: func.func @pair
// CHECK-NOT: stablehlo.concatenate
// CHECK: %[[I:.*]] = stablehlo.iota dim = 1 : tensor<64x2xi32>
// CHECK: %[[FIRST:.*]] = stablehlo.compare LE, %[[I]]
// CHECK: stablehlo.select %[[FIRST]]
func.func @pair(%x: tensor<64x1xf32>, %y: tensor<64x1xf32>) -> tensor<64x2xf32> {
  %0 = stablehlo.concatenate %x, %y, dim = 1 : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x2xf32>
  return %0 : tensor<64x2xf32>
}

// Long parts are copied well.
// CHECK-LABEL: func.func @long_parts
// CHECK-NEXT: stablehlo.concatenate
func.func @long_parts(%x: tensor<1x500xf32>, %y: tensor<1x500xf32>) -> tensor<2x500xf32> {
  %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1x500xf32>, tensor<1x500xf32>) -> tensor<2x500xf32>
  return %0 : tensor<2x500xf32>
}
