// argument: [[[(0.6+1.6j)], [(0.6-0.4j)], [(1.3-0.7j)], [(-0.8+0.2j)], [(1.7+1j)], [(-0.3+0.2j)]]]
// answer: [[[(-3+0.2j)], [(2+0.8j)], [(1.4+3.2j)], [(3.6-3j)], [(-2.9+4.1j)], [(1.3+0.4j)]]]
func.func @f(%x: tensor<1x6x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>> {
  %k = stablehlo.constant dense<[[[(1.0, 0.0)]], [[(0.0, 2.0)]], [[(1.0, -1.0)]]]>
      : tensor<3x1x1xcomplex<f32>>
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x6x1xcomplex<f32>>, tensor<3x1x1xcomplex<f32>>) -> tensor<1x6x1xcomplex<f32>>
  return %0 : tensor<1x6x1xcomplex<f32>>
}
