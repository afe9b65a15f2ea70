// RUN: nabla-opt %s --nabla-inline-calls | filecheck %s

// A function that ends as a region does returns as a function does.
// CHECK-LABEL: func.func @returned
// CHECK: return %{{.*}} : tensor<3xf32>
func.func @returned(%x: tensor<3xf32>) -> tensor<3xf32> {
  stablehlo.return %x : tensor<3xf32>
}

// A composite is a call of its decomposition; the private function goes.
// CHECK-LABEL: func.func @composed
// CHECK-NEXT: %[[S:.*]] = stablehlo.multiply
// CHECK-NEXT: %[[A:.*]] = stablehlo.add %[[S]]
// CHECK-NEXT: return %[[A]]
// CHECK-NOT: func.func private
func.func @composed(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @plus(%0, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @square(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @plus(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %y : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// A function that a custom call applies to elements stays, as a private one; the pass nabla-normalize reads it.
// CHECK-LABEL: func.func @largest
// CHECK: stablehlo.custom_call @ApproxTopK
// CHECK: func.func private @greater
// CHECK-NOT: call
func.func @largest(%x: tensor<5xf32>, %i: tensor<5xi32>, %low: tensor<f32>, %none: tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %low, %none) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<5xf32>, tensor<5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = call @compared(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @compared(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
