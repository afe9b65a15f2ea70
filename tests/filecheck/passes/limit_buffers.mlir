// RUN: nabla-opt %s --nabla-limit-buffers=target=cuda | filecheck %s

// Of 14 arguments a kernel on CUDA may read 12: the sum of the first has a kernel of its own.
// CHECK-LABEL: func.func @many
// CHECK-COUNT-11: stablehlo.add
// CHECK: %[[SUM:.*]] = iree_tensor_ext.compute_barrier.start %{{.*}} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: stablehlo.add %[[SUM]], %arg12
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @many(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>,
    %f: tensor<4xf32>, %g: tensor<4xf32>, %h: tensor<4xf32>, %i: tensor<4xf32>, %j: tensor<4xf32>, %k: tensor<4xf32>,
    %l: tensor<4xf32>, %m: tensor<4xf32>, %n: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.add %0, %c : tensor<4xf32>
  %2 = stablehlo.add %1, %d : tensor<4xf32>
  %3 = stablehlo.add %2, %e : tensor<4xf32>
  %4 = stablehlo.add %3, %f : tensor<4xf32>
  %5 = stablehlo.add %4, %g : tensor<4xf32>
  %6 = stablehlo.add %5, %h : tensor<4xf32>
  %7 = stablehlo.add %6, %i : tensor<4xf32>
  %8 = stablehlo.add %7, %j : tensor<4xf32>
  %9 = stablehlo.add %8, %k : tensor<4xf32>
  %10 = stablehlo.add %9, %l : tensor<4xf32>
  %11 = stablehlo.add %10, %m : tensor<4xf32>
  %12 = stablehlo.add %11, %n : tensor<4xf32>
  return %12 : tensor<4xf32>
}

// What is computed lies in one buffer, however much of it there is.
// CHECK-LABEL: func.func @computed
// CHECK-NOT: compute_barrier
// CHECK: return
func.func @computed(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %e: tensor<4xf32>,
    %f: tensor<4xf32>, %g: tensor<4xf32>, %h: tensor<4xf32>, %i: tensor<4xf32>, %j: tensor<4xf32>, %k: tensor<4xf32>,
    %l: tensor<4xf32>, %m: tensor<4xf32>, %n: tensor<4xf32>) -> tensor<2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.concatenate %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l, %m, %n, dim = 0 : (tensor<4xf32>, tensor<4xf32>,
    tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
    tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<56xf32>
  %1 = stablehlo.slice %0 [0:2] : (tensor<56xf32>) -> tensor<2xf32>
  %2 = stablehlo.slice %0 [2:4] : (tensor<56xf32>) -> tensor<2xf32>
  %3 = stablehlo.add %1, %2 : tensor<2xf32>
  return %3 : tensor<2xf32>
}
