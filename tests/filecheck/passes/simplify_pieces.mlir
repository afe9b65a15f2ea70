// RUN: nabla-opt %s --nabla-simplify | filecheck %s
// One function for each pattern of passes/simplify/pieces.py, with the name of the pattern.

// The gradient of a function of x[:-1] and x[1:] is a sum of two padded pieces: one concatenation, with one sum where
// they overlap.
// CHECK-LABEL: func.func @sum_of_pieces
// CHECK-SAME: (%[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<3xf32>)
// CHECK-NOT: stablehlo.pad
// CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}} : tensor<2xf32>
// CHECK-NOT: stablehlo.pad
// CHECK: %[[C:.*]] = stablehlo.concatenate %{{.*}}, %[[SUM]], %{{.*}}, dim = 0
// CHECK-NEXT: return %[[C]]
func.func @sum_of_pieces(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0], high = [1], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.pad %b, %zero, low = [1], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32> loc("vjp(stablehlo.multiply)")
  return %2 : tensor<4xf32>
}

// With another padding value the padding takes part in the sum.
// CHECK-LABEL: func.func @sum_of_pieces_around_ones
// CHECK-COUNT-2: stablehlo.pad
// CHECK: stablehlo.add %{{.*}} : tensor<4xf32>
func.func @sum_of_pieces_around_ones(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.pad %a, %one, low = [0], high = [1], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.pad %b, %one, low = [1], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32> loc("vjp(stablehlo.multiply)")
  return %2 : tensor<4xf32>
}

// Zeros between the elements of each, and elements of the others in their place: the columns of a stack.
// CHECK-LABEL: func.func @sum_of_columns
// CHECK-SAME: (%[[A:.*]]: tensor<3x2xf32>, %[[B:.*]]: tensor<3x2xf32>, %[[C:.*]]: tensor<3x2xf32>)
// CHECK-NOT: stablehlo.pad
// CHECK-NOT: stablehlo.add
// CHECK: %[[S:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, %{{.*}}, dim = 1 : {{.*}} -> tensor<3x3x2xf32>
// CHECK-NEXT: %[[R:.*]] = stablehlo.reshape %[[S]] : (tensor<3x3x2xf32>) -> tensor<9x2xf32>
// CHECK-NEXT: return %[[R]]
func.func @sum_of_columns(%a: tensor<3x2xf32>, %b: tensor<3x2xf32>, %c: tensor<3x2xf32>) -> tensor<9x2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [2, 0], high = [0, 0], interior = [2, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<9x2xf32>
  %1 = stablehlo.pad %b, %zero, low = [0, 0], high = [2, 0], interior = [2, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<9x2xf32>
  %2 = stablehlo.pad %c, %zero, low = [1, 0], high = [1, 0], interior = [2, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<9x2xf32>
  %3 = stablehlo.add %0, %1 : tensor<9x2xf32> loc("vjp(stablehlo.multiply)")
  %4 = stablehlo.add %3, %2 : tensor<9x2xf32> loc("vjp(stablehlo.multiply)")
  return %4 : tensor<9x2xf32>
}

// Not if a row of zeros stands at the end.
// CHECK-LABEL: func.func @sum_of_columns_and_more
// CHECK: stablehlo.pad
func.func @sum_of_columns_and_more(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<7xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0], high = [2], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = stablehlo.pad %b, %zero, low = [1], high = [1], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = stablehlo.add %0, %1 : tensor<7xf32> loc("vjp(stablehlo.multiply)")
  return %2 : tensor<7xf32>
}
