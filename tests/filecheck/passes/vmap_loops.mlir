// RUN: nabla-opt %s --nabla-canonicalize-batch --nabla-vmap | filecheck %s

// A loop with a trip count that all entries share is batched in place: one loop, whose counter is not batched.
// CHECK-LABEL: func.func @shared_count
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %arg0) : tensor<i32>, tensor<5x3xf32>
// CHECK: stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK: stablehlo.sine %{{.*}} : tensor<5x3xf32>
// CHECK-NOT: stablehlo.while
func.func @shared_count(%xs: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<3xf32>):
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n, %r = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<3xf32>
    cond {
      %last = stablehlo.constant dense<100> : tensor<i32>
      %p = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %c : tensor<3xf32>
      stablehlo.return %next, %s : tensor<i32>, tensor<3xf32>
    }
    stablehlo.return %r : tensor<3xf32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5x3xf32>) -> tensor<5x3xf32>
  return %y : tensor<5x3xf32>
}

// With a trip count for each entry it runs until the last one is done; an entry that is done keeps its value.
// CHECK-LABEL: func.func @count_per_entry
// CHECK: stablehlo.while
// CHECK: stablehlo.reduce({{.*}}) applies stablehlo.or
// CHECK: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<5xi1>, tensor<5xf32>
// CHECK-NOT: stablehlo.while
func.func @count_per_entry(%xs: tensor<5xf32>) -> tensor<5xf32> {
  %y = "batch.vmap"(%xs) ({
  ^bb0(%x: tensor<f32>):
    %r = stablehlo.while(%c = %x) : tensor<f32>
    cond {
      %most = stablehlo.constant dense<1.0> : tensor<f32>
      %p = stablehlo.compare LT, %c, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %s = stablehlo.add %c, %c : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }
    stablehlo.return %r : tensor<f32>
  }) {axes = ["i"], sizes = array<i64: 5>, in_axes = [array<i64: 0>], out_axes = [array<i64: 0>]}
    : (tensor<5xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}
