// RUN: nabla-opt %s "--nabla-legalize-sorts=vector-bytes=64" | filecheck %s

// One key in the total order: its places order all else.
// CHECK: hal.executable.source private @[[KERNEL:sort_1x5000_i32]]
// CHECK-LABEL: func.func @places
// CHECK: %[[SORTED:.*]]:{{[0-9]+}} = flow.dispatch @[[KERNEL]]::@[[KERNEL]]
// CHECK: return %{{.*}} : tensor<5000xi32>
func.func @places(%x: tensor<5000xf32>) -> tensor<5000xi32> {
  %i = stablehlo.iota dim = 0 : tensor<5000xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<5000xf32>, tensor<5000xi32>) -> (tensor<5000xf32>, tensor<5000xi32>)
  return %0#1 : tensor<5000xi32>
}
