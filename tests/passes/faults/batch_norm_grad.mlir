// argument: [[-0.6, -1.3, -1.4], [0.5, 1, -0.2], [-1.1, 0.9, -1.3], [-0.7, 0.6, -2.3]]
// argument: [1, 2, 0.5]
// answer: [[1.34048172, -1.41660601, 5.85304608], [1.3857712, 1.20597172, 2.89021382], [1.3198956, 1.0919466, 5.60614339], [1.3363645, 0.749871241, 8.07517028]]
func.func @f(%x: tensor<4x3xf32>, %s: tensor<3xf32>) -> tensor<4x3xf32> {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %s, %s, %x) {epsilon = 0.1 : f32, feature_index = 1 : i64}
      : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>)
      -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0 : tensor<4x3xf32>
}
