// RUN: nabla-opt %s --nabla-read-carries | filecheck %s

// The error decides whether there is one more step, which does not read it; the other carry is read.
// CHECK-LABEL: func.func @halved
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %[[ERROR:.*]] = %{{.*}})
// CHECK: do {
// CHECK: %[[HALF:.*]] = stablehlo.multiply
// CHECK: %[[SIZE:.*]] = stablehlo.abs
// CHECK: %[[BOTH:.*]]:2 = stablehlo.optimization_barrier %[[SIZE]], %[[ERROR]]
// CHECK: stablehlo.return %[[HALF]], %[[BOTH]]#0
func.func @halved(%x: tensor<f32>, %e: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %r:2 = stablehlo.while(%a = %x, %error = %e) : tensor<f32>, tensor<f32>
  cond {
    %t = stablehlo.constant dense<1.0e-3> : tensor<f32>
    %p = stablehlo.compare GT, %error, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %h = stablehlo.constant dense<0.5> : tensor<f32>
    %b = stablehlo.multiply %a, %h : tensor<f32>
    %s = stablehlo.abs %b : tensor<f32>
    stablehlo.return %b, %s : tensor<f32>, tensor<f32>
  }
  return %r#0, %r#1 : tensor<f32>, tensor<f32>
}
