// argument: [[4, 2, 1], [2, 5, 3], [1, 3, 6]]
// answer: [[2, 0, 0], [1, 2, 0], [0.5, 1.25, 2.04633819]]
func.func @f(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}}
      : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
  return %0#0 : tensor<3x3xf32>
}
