// One function for each operation that no sample of a record can make: control flow, random numbers, calls, and what
// is rewritten at import. Each returns what the operation gives, and then the same by other means.

func.func @stablehlo_while(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %n = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.sine %a : tensor<3xf32>
    stablehlo.return %j, %b : tensor<i32>, tensor<3xf32>
  }
  %s = stablehlo.sine %x : tensor<3xf32>
  %t = stablehlo.sine %s : tensor<3xf32>
  return %r#1, %t : tensor<3xf32>, tensor<3xf32>
}

func.func @stablehlo_if(%x: tensor<3xf32>, %p: tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y = stablehlo.sine %x : tensor<3xf32>
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %y : tensor<3xf32>
  }, {
    stablehlo.return %x : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  %s = stablehlo.select %p, %y, %x : tensor<i1>, tensor<3xf32>
  return %r, %s : tensor<3xf32>, tensor<3xf32>
}

func.func @stablehlo_case(%x: tensor<3xf32>, %p: tensor<i1>) -> (tensor<3xf32>, tensor<3xf32>) {
  %i = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>
  %y = stablehlo.sine %x : tensor<3xf32>
  %r = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<3xf32>
  }, {
    stablehlo.return %y : tensor<3xf32>
  }) : (tensor<i32>) -> tensor<3xf32>
  %s = stablehlo.select %p, %y, %x : tensor<i1>, tensor<3xf32>
  return %r, %s : tensor<3xf32>, tensor<3xf32>
}

func.func @stablehlo_custom_call(%x: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
    : (tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<i32>)
  %1 = stablehlo.sqrt %x : tensor<1x1xf32>
  return %0#0, %1 : tensor<1x1xf32>, tensor<1x1xf32>
}

func.func @stablehlo_rng(%x: tensor<f32>) -> (tensor<4xi1>, tensor<4xi1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %0 = stablehlo.rng %zero, %x, %shape, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.compare LT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %3 = stablehlo.constant dense<true> : tensor<4xi1>
  return %2, %3 : tensor<4xi1>, tensor<4xi1>
}

// The same state gives the same bits.
func.func @stablehlo_rng_bit_generator(%x: tensor<2xf32>) -> (tensor<4xui32>, tensor<4xui32>) {
  %s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  %1:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %0#1, %1#1 : tensor<4xui32>, tensor<4xui32>
}

func.func @chlo_constant_like(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "chlo.constant_like"(%x) {value = 2.0 : f32} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.constant dense<2.0> : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

func.func @chlo_constant(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "chlo.constant"() {value = dense<2.0> : tensor<3xf32>} : () -> tensor<3xf32>
  %1 = stablehlo.constant dense<2.0> : tensor<3xf32>
  %2 = stablehlo.add %x, %0 : tensor<3xf32>
  %3 = stablehlo.add %x, %1 : tensor<3xf32>
  return %2, %3 : tensor<3xf32>, tensor<3xf32>
}

func.func @chlo_ragged_dot(%x: tensor<5x3xf32>, %w: tensor<2x3x2xf32>) -> (tensor<5x2xf32>, tensor<5x2xf32>) {
  %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %0 = "chlo.ragged_dot"(%x, %w, %sizes) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
    lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
    rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}
    : (tensor<5x3xf32>, tensor<2x3x2xf32>, tensor<2xi32>) -> tensor<5x2xf32>
  %1 = stablehlo.slice %x [0:2, 0:3] : (tensor<5x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %x [2:5, 0:3] : (tensor<5x3xf32>) -> tensor<3x3xf32>
  %3 = stablehlo.slice %w [0:1, 0:3, 0:2] : (tensor<2x3x2xf32>) -> tensor<1x3x2xf32>
  %4 = stablehlo.slice %w [1:2, 0:3, 0:2] : (tensor<2x3x2xf32>) -> tensor<1x3x2xf32>
  %5 = stablehlo.reshape %3 : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  %6 = stablehlo.reshape %4 : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
  %7 = stablehlo.dot %1, %5 : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %8 = stablehlo.dot %2, %6 : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %9 = stablehlo.concatenate %7, %8, dim = 0 : (tensor<2x2xf32>, tensor<3x2xf32>) -> tensor<5x2xf32>
  return %0, %9 : tensor<5x2xf32>, tensor<5x2xf32>
}

func.func @stablehlo_unary_einsum(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %0 = "stablehlo.unary_einsum"(%x) {einsum_config = "ij->ji"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
}

func.func @stablehlo_tuple(%x: tensor<3xf32>) -> tuple<tensor<3xf32>, tensor<3xf32>> {
  %0 = stablehlo.sine %x : tensor<3xf32>
  %1 = stablehlo.tuple %0, %0 : tuple<tensor<3xf32>, tensor<3xf32>>
  return %1 : tuple<tensor<3xf32>, tensor<3xf32>>
}

func.func @stablehlo_get_tuple_element(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.sine %x : tensor<3xf32>
  %1 = stablehlo.tuple %x, %0 : tuple<tensor<3xf32>, tensor<3xf32>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
  return %2, %0 : tensor<3xf32>, tensor<3xf32>
}

func.func @stablehlo_composite(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.composite "my.square" %x {decomposition = @square} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
func.func private @square(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

func.func @stablehlo_dynamic_broadcast_in_dim(%x: tensor<3xf32>) -> (tensor<?x?xf32>, tensor<2x3xf32>) {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<?x?xf32>, tensor<2x3xf32>
}

func.func @stablehlo_dynamic_reshape(%x: tensor<2x3xf32>) -> (tensor<?xf32>, tensor<6xf32>) {
  %s = stablehlo.constant dense<6> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0, %1 : tensor<?xf32>, tensor<6xf32>
}

func.func @stablehlo_dynamic_iota(%x: tensor<3xf32>) -> (tensor<?xf32>, tensor<3xf32>) {
  %s = stablehlo.constant dense<3> : tensor<1xi32>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.iota dim = 0 : tensor<3xf32>
  return %0, %1 : tensor<?xf32>, tensor<3xf32>
}

func.func @stablehlo_dynamic_pad(%x: tensor<3xf32>) -> (tensor<?xf32>, tensor<6xf32>) {
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  %low = stablehlo.constant dense<1> : tensor<1xi32>
  %high = stablehlo.constant dense<2> : tensor<1xi32>
  %interior = stablehlo.constant dense<0> : tensor<1xi32>
  %0 = stablehlo.dynamic_pad %x, %z, %low, %high, %interior
    : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.pad %x, %z, low = [1], high = [2], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %1 : tensor<?xf32>, tensor<6xf32>
}

func.func @stablehlo_dynamic_gather(%x: tensor<4x3xf32>) -> (tensor<?x?xf32>, tensor<2x3xf32>) {
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %s = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
    : (tensor<4x3xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}
    : (tensor<4x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<?x?xf32>, tensor<2x3xf32>
}

func.func @stablehlo_dynamic_conv(%x: tensor<1x4x2xf32>, %w: tensor<2x2x3xf32>)
    -> (tensor<?x?x?xf32>, tensor<1x5x3xf32>) {
  %p = stablehlo.constant dense<1> : tensor<1x2xi32>
  %0 = "stablehlo.dynamic_conv"(%x, %w, %p) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<1x4x2xf32>, tensor<2x2x3xf32>, tensor<1x2xi32>) -> tensor<?x?x?xf32>
  %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<1x4x2xf32>, tensor<2x2x3xf32>) -> tensor<1x5x3xf32>
  return %0, %1 : tensor<?x?x?xf32>, tensor<1x5x3xf32>
}

func.func @stablehlo_real_dynamic_slice(%x: tensor<5xf32>) -> (tensor<?xf32>, tensor<2xf32>) {
  %start = stablehlo.constant dense<1> : tensor<1xi32>
  %limit = stablehlo.constant dense<4> : tensor<1xi32>
  %stride = stablehlo.constant dense<2> : tensor<1xi32>
  %0 = stablehlo.real_dynamic_slice %x, %start, %limit, %stride
    : (tensor<5xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.slice %x [1:4:2] : (tensor<5xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<?xf32>, tensor<2xf32>
}

func.func @stablehlo_get_dimension_size(%x: tensor<5xf32>) -> (tensor<i32>, tensor<i32>) {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<5xf32>) -> tensor<i32>
  %1 = stablehlo.constant dense<5> : tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}

func.func @stablehlo_set_dimension_size(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %n = stablehlo.constant dense<5> : tensor<i32>
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<5xf32>, tensor<i32>) -> tensor<5xf32>
  return %0, %x : tensor<5xf32>, tensor<5xf32>
}
