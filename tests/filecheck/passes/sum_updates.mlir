// RUN: nabla-opt %s --nabla-sum-updates | filecheck %s

// Rows that are added to others are summed for each of these, from indices and numbers of rows that nothing else reads.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: stablehlo.scatter
// CHECK: %[[HERE:.*]] = stablehlo.compare EQ, {{.*}} : (tensor<1000x20x3xi32>, tensor<1000x20x3xi32>)
// CHECK: %[[TERMS:.*]] = stablehlo.select %[[HERE]]
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[TERMS]] {{.*}} dimensions = [0]
// CHECK: stablehlo.add %arg0, %[[SUM]]
func.func @rows(%x: tensor<20x3xf32>, %i: tensor<1000x1xi32>, %u: tensor<1000x3xf32>) -> tensor<20x3xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<20x3xf32>, tensor<1000x1xi32>, tensor<1000x3xf32>) -> tensor<20x3xf32>
  return %0 : tensor<20x3xf32>
}

// Into very many rows a sum for each would take longer; a largest update is no sum.
// CHECK-LABEL: func.func @many
// CHECK: stablehlo.scatter
// CHECK: stablehlo.scatter
func.func @many(%x: tensor<1000000x3xf32>, %y: tensor<20x3xf32>, %i: tensor<1000x1xi32>, %u: tensor<1000x3xf32>) -> (tensor<1000000x3xf32>, tensor<20x3xf32>) {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<1000000x3xf32>, tensor<1000x1xi32>, tensor<1000x3xf32>) -> tensor<1000000x3xf32>
  %2 = "stablehlo.scatter"(%y, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<20x3xf32>, tensor<1000x1xi32>, tensor<1000x3xf32>) -> tensor<20x3xf32>
  return %0, %2 : tensor<1000000x3xf32>, tensor<20x3xf32>
}
