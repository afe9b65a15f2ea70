// RUN: nabla-opt %s --nabla-legalize-complex | filecheck %s

// Both parts are chosen: IREE folds a choice between complex constants to a wrong one.
// CHECK-LABEL: func.func @chosen
// CHECK: %[[RE:.*]] = stablehlo.select
// CHECK: %[[IM:.*]] = stablehlo.select
// CHECK: %[[Z:.*]] = stablehlo.complex %[[RE]], %[[IM]]
// CHECK-NEXT: return %[[Z]]
func.func @chosen(%p: tensor<3xi1>, %x: tensor<3xcomplex<f32>>, %y: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
  %0 = stablehlo.select %p, %x, %y : tensor<3xi1>, tensor<3xcomplex<f32>>
  return %0 : tensor<3xcomplex<f32>>
}

// The imaginary part is 0 by itself: of a constant IREE takes the real one again.
// CHECK-LABEL: func.func @converted
// CHECK-SAME: (%[[X:.*]]: tensor<3xi32>)
// CHECK-DAG: %[[RE:.*]] = stablehlo.convert %[[X]] : (tensor<3xi32>) -> tensor<3xf32>
// CHECK-DAG: %[[IM:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK: %[[Z:.*]] = stablehlo.complex %[[RE]], %[[IM]]
// CHECK-NEXT: return %[[Z]]
func.func @converted(%x: tensor<3xi32>) -> tensor<3xcomplex<f32>> {
  %0 = stablehlo.convert %x : (tensor<3xi32>) -> tensor<3xcomplex<f32>>
  return %0 : tensor<3xcomplex<f32>>
}

// CHECK-LABEL: func.func @padded
// CHECK-COUNT-2: stablehlo.pad {{.*}} : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
// CHECK: stablehlo.complex
func.func @padded(%x: tensor<3xcomplex<f32>>, %z: tensor<complex<f32>>) -> tensor<5xcomplex<f32>> {
  %0 = stablehlo.pad %x, %z, low = [1], high = [1], interior = [0] : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<5xcomplex<f32>>
  return %0 : tensor<5xcomplex<f32>>
}
