// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-specialize{inputs=i64=3,4x2xf32})' | filecheck %s
// RUN: nabla-opt %s --pass-pipeline='builtin.module(nabla-specialize{inputs=i64=3,4x2xf32},nabla-normalize,cse,canonicalize)' | filecheck %s --check-prefix=STATIC

// The argument has its static type, and a conversion to the former one. A number that is a size is a constant.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[N:.*]]: tensor<i64>, %[[X:.*]]: tensor<4x2xf32>) -> tensor<?x?x2xf32>
// CHECK-DAG: %[[C:.*]] = stablehlo.constant dense<3> : tensor<i64>
// CHECK-DAG: %[[Y:.*]] = stablehlo.convert %[[X]] : (tensor<4x2xf32>) -> tensor<?x2xf32>
// CHECK-DAG: stablehlo.reshape %[[C]]
// CHECK-DAG: stablehlo.get_dimension_size %[[Y]]
// CHECK: stablehlo.dynamic_broadcast_in_dim %[[Y]]

// The pass nabla-normalize computes the other shapes.
// STATIC-LABEL: func.func @main
// STATIC-SAME: (%{{.*}}: tensor<i64>, %[[X:.*]]: tensor<4x2xf32>) -> tensor<3x4x2xf32>
// STATIC-NEXT: %[[Y:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [1, 2] : (tensor<4x2xf32>) -> tensor<3x4x2xf32>
// STATIC-NEXT: return %[[Y]]
func.func @main(%n: tensor<i64>, %x: tensor<?x2xf32>) -> tensor<?x?x2xf32> {
  %a = stablehlo.reshape %n : (tensor<i64>) -> tensor<1xi64>
  %d = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
  %e = stablehlo.convert %d : (tensor<i32>) -> tensor<i64>
  %b = stablehlo.reshape %e : (tensor<i64>) -> tensor<1xi64>
  %c = stablehlo.constant dense<2> : tensor<1xi64>
  %s = stablehlo.concatenate %a, %b, %c, dim = 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<?x2xf32>, tensor<3xi64>) -> tensor<?x?x2xf32>
  return %y : tensor<?x?x2xf32>
}
