// RUN: nabla-opt %s --nabla-split-sums | filecheck %s

// One sum of a square is that of its rows, and then one of these.
// CHECK-LABEL: func.func @square
// CHECK: stablehlo.reduce{{.*}} dimensions = [1] : (tensor<256x256xf32>, tensor<f32>) -> tensor<256xf32>
// CHECK: stablehlo.reduce{{.*}} dimensions = [0] : (tensor<256xf32>, tensor<f32>) -> tensor<f32>
func.func @square(%x: tensor<256x256xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<256x256xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Sums over columns are taken in parts of rows.
// CHECK-LABEL: func.func @columns
// CHECK: stablehlo.reshape %{{.*}} : (tensor<10000x6xf32>) -> tensor<125x80x6xf32>
// CHECK: stablehlo.reduce{{.*}} dimensions = [1]
// CHECK: stablehlo.reduce{{.*}} dimensions = [0]
func.func @columns(%x: tensor<10000x6xf32>, %z: tensor<f32>) -> tensor<6xf32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<10000x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// A product with few results is a product of parts, and a sum over them; what is left over is another product.
// CHECK-LABEL: func.func @product
// CHECK: %[[P:.*]] = stablehlo.dot_general {{.*}}batching_dims = [1] x [0], contracting_dims = [2] x [1]
// CHECK-SAME: -> tensor<16x64x256xf32>
// CHECK: stablehlo.reduce(%[[P]] {{.*}} dimensions = [0]
func.func @product(%x: tensor<64x1024xf32>, %y: tensor<1024x256xf32>) -> tensor<64x256xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
  return %0 : tensor<64x256xf32>
}
// CHECK-LABEL: func.func @ragged
// CHECK: stablehlo.dot_general {{.*}} -> tensor<16x64x256xf32>
// CHECK: stablehlo.dot_general {{.*}} : (tensor<64x15xf32>, tensor<15x256xf32>) -> tensor<64x256xf32>
// CHECK: stablehlo.add
func.func @ragged(%x: tensor<64x1039xf32>, %y: tensor<1039x256xf32>) -> tensor<64x256xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<64x1039xf32>, tensor<1039x256xf32>) -> tensor<64x256xf32>
  return %0 : tensor<64x256xf32>
}

// What has many results, or few terms, stays as it is.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: stablehlo.reshape
// CHECK: return
func.func @wide(%x: tensor<1024x64xf32>, %y: tensor<64x1024xf32>, %z: tensor<f32>) -> (tensor<1024x1024xf32>, tensor<64xf32>) {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<1024x64xf32>, tensor<64x1024xf32>) -> tensor<1024x1024xf32>
  %1 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %0, %1 : tensor<1024x1024xf32>, tensor<64xf32>
}
