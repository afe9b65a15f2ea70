// RUN: nabla-opt %s --nabla-simplify | filecheck %s
// One function for each pattern of passes/simplify/arithmetic.py, with the name of the pattern.

// CHECK-LABEL: func.func @add_zero
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @add_zero(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<3xf32>
  %0 = stablehlo.add %x, %c : tensor<3xf32> loc("vjp(stablehlo.multiply)")
  %1 = stablehlo.add %c, %x : tensor<3xf32> loc("vjp(stablehlo.multiply)")
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @add_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.subtract %[[X]], %[[Y]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.subtract %[[Y]], %[[X]]
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @add_negated(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.negate %y : tensor<3xf32>
  %1 = stablehlo.add %x, %0 : tensor<3xf32>
  %2 = stablehlo.negate %x : tensor<3xf32>
  %3 = stablehlo.add %2, %y : tensor<3xf32>
  return %1, %3 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @add_same_multiple
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[SIX:.*]] = stablehlo.constant dense<6.0{{.*}}>
// CHECK-NEXT: stablehlo.multiply %[[X]], %[[SIX]]
// CHECK-NEXT: return
func.func @add_same_multiple(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<3.0> : tensor<3xf32>
  %0 = stablehlo.multiply %x, %c : tensor<3xf32>
  %1 = stablehlo.add %0, %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @subtract_zero
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT: return %[[X]], %[[N]]
func.func @subtract_zero(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<3xf32>
  %0 = stablehlo.subtract %x, %c : tensor<3xf32> loc("vjp(stablehlo.multiply)")
  %1 = stablehlo.subtract %c, %x : tensor<3xf32> loc("vjp(stablehlo.multiply)")
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @subtract_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT: return
func.func @subtract_negated(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %y : tensor<3xf32>
  %1 = stablehlo.subtract %x, %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// The sign goes outwards, to where it can disappear: here into the subtraction behind it.
// CHECK-LABEL: func.func @subtract_from_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT: stablehlo.subtract %[[X]], %[[S]]
// CHECK-NEXT: return
func.func @subtract_from_negated(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.subtract %0, %y : tensor<3xf32> loc("vjp(stablehlo.multiply)")
  %2 = stablehlo.add %x, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// CHECK-LABEL: func.func @negate_multiple
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<-3.0{{.*}}>
// CHECK-NEXT: stablehlo.multiply %[[X]], %[[C]]
// CHECK-NEXT: return
func.func @negate_multiple(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<3.0> : tensor<3xf32>
  %0 = stablehlo.multiply %x, %c : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @negate_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @negate_negated(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @multiply_one
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT: return %[[X]], %[[N]]
func.func @multiply_one(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %minus = stablehlo.constant dense<-1.0> : tensor<3xf32>
  %0 = stablehlo.multiply %one, %x : tensor<3xf32>
  %1 = stablehlo.multiply %x, %minus : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// 0 * x is 0 for integers; for floating point it is not where x is infinite or NaN, so it stays.
// CHECK-LABEL: func.func @multiply_one_zero
// CHECK-DAG: %[[I:.*]] = stablehlo.constant dense<0> : tensor<3xi32>
// CHECK-DAG: %[[F:.*]] = stablehlo.multiply {{.*}} : tensor<3xf32>
// CHECK: return %[[I]], %[[F]]
func.func @multiply_one_zero(%i: tensor<3xi32>, %x: tensor<3xf32>) -> (tensor<3xi32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<0> : tensor<3xi32>
  %d = stablehlo.constant dense<0.0> : tensor<3xf32>
  %0 = stablehlo.multiply %i, %c : tensor<3xi32>
  %1 = stablehlo.multiply %x, %d : tensor<3xf32>
  return %0, %1 : tensor<3xi32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @multiply_negated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-DAG: %[[BOTH:.*]] = stablehlo.multiply %[[X]], %[[Y]]
// CHECK-DAG: %[[C:.*]] = stablehlo.constant dense<-3.0{{.*}}>
// CHECK-DAG: %[[CONSTANT:.*]] = stablehlo.multiply %[[X]], %[[C]]
// CHECK: return %[[BOTH]], %[[CONSTANT]]
func.func @multiply_negated(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<3.0> : tensor<3xf32>
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.negate %y : tensor<3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
  %3 = stablehlo.multiply %0, %c : tensor<3xf32>
  return %2, %3 : tensor<3xf32>, tensor<3xf32>
}

// One sign goes outwards; in the sum behind it, it is gone.
// CHECK-LABEL: func.func @multiply_negated_one
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[P:.*]] = stablehlo.multiply %[[X]], %[[Y]]
// CHECK-NEXT: stablehlo.subtract %[[Y]], %[[P]]
// CHECK-NEXT: return
func.func @multiply_negated_one(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  %1 = stablehlo.multiply %0, %y : tensor<3xf32>
  %2 = stablehlo.add %1, %y : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// CHECK-LABEL: func.func @multiply_constants
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[SIX:.*]] = stablehlo.constant dense<6.0{{.*}}>
// CHECK-NEXT: stablehlo.multiply %[[X]], %[[SIX]]
// CHECK-NEXT: return
func.func @multiply_constants(%x: tensor<3xf32>) -> tensor<3xf32> {
  %two = stablehlo.constant dense<2.0> : tensor<3xf32>
  %three = stablehlo.constant dense<3.0> : tensor<3xf32>
  %0 = stablehlo.multiply %x, %two : tensor<3xf32>
  %1 = stablehlo.multiply %three, %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// The constants would overflow when folded: 1e30 * 1e30 * x is not infinite for every x.
// CHECK-LABEL: func.func @multiply_constants_overflow
// CHECK-COUNT-2: stablehlo.multiply
func.func @multiply_constants_overflow(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<1.0e30> : tensor<3xf32>
  %0 = stablehlo.multiply %x, %c : tensor<3xf32>
  %1 = stablehlo.multiply %0, %c : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// The derivative of half a square has no factor.
// CHECK-LABEL: func.func @multiply_twice
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @multiply_twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<3xf32>
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  %1 = stablehlo.multiply %half, %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// By 4 it is an exact multiplication; by 3 it is not, and stays.
// CHECK-LABEL: func.func @divide_one
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-DAG: %[[THREE:.*]] = stablehlo.constant dense<3.0{{.*}}>
// CHECK-DAG: %[[QUARTER:.*]] = stablehlo.constant dense<2.5{{0*}}e-01>
// CHECK-DAG: %[[A:.*]] = stablehlo.multiply %[[X]], %[[QUARTER]]
// CHECK-DAG: %[[B:.*]] = stablehlo.divide %[[X]], %[[THREE]]
// CHECK: return %[[X]], %[[A]], %[[B]]
func.func @divide_one(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<3xf32>
  %four = stablehlo.constant dense<4.0> : tensor<3xf32>
  %three = stablehlo.constant dense<3.0> : tensor<3xf32>
  %0 = stablehlo.divide %x, %one : tensor<3xf32>
  %1 = stablehlo.divide %x, %four : tensor<3xf32>
  %2 = stablehlo.divide %x, %three : tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @select_same
// CHECK-SAME: (%{{.*}}: tensor<i1>, %[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @select_same(%p: tensor<i1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.select %p, %x, %x : tensor<i1>, tensor<3xf32>
  %1 = stablehlo.select %false, %x, %y : tensor<i1>, tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// A truth value that is known.
// CHECK-LABEL: func.func @fold_not
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %{{.*}}: tensor<3xf32>)
// CHECK-NEXT: return %[[X]]
func.func @fold_not(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %false = stablehlo.constant dense<false> : tensor<3xi1>
  %0 = stablehlo.not %false : tensor<3xi1>
  %1 = stablehlo.select %0, %x, %y : tensor<3xi1>, tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @select_once
// CHECK-SAME: (%[[P:.*]]: tensor<3xi1>, %[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK: %[[M:.*]] = stablehlo.multiply %[[X]], %[[Y]]
// CHECK-NEXT: %[[S:.*]] = stablehlo.select %[[P]], %[[M]]
// CHECK-NEXT: return %[[S]]
func.func @select_once(%p: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<3xf32>
  %0 = stablehlo.select %p, %x, %zero : tensor<3xi1>, tensor<3xf32>
  %1 = stablehlo.multiply %0, %y : tensor<3xf32>
  %2 = stablehlo.select %p, %1, %zero : tensor<3xi1>, tensor<3xf32>
  return %2 : tensor<3xf32>
}

// To f64 and back loses nothing; to f16 and back it would.
// CHECK-LABEL: func.func @convert_same
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[H:.*]] = stablehlo.convert %[[X]] : {{.*}} -> tensor<3xf16>
// CHECK-NEXT: %[[R:.*]] = stablehlo.convert %[[H]]
// CHECK-NEXT: return %[[X]], %[[X]], %[[R]]
func.func @convert_same(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.convert %x : tensor<3xf32>
  %1 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf64>
  %2 = stablehlo.convert %1 : (tensor<3xf64>) -> tensor<3xf32>
  %3 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf16>
  %4 = stablehlo.convert %3 : (tensor<3xf16>) -> tensor<3xf32>
  return %0, %2, %4 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @logical_neutral
// CHECK-SAME: (%[[P:.*]]: tensor<3xi1>)
// CHECK-NEXT: return %[[P]], %[[P]]
func.func @logical_neutral(%p: tensor<3xi1>) -> (tensor<3xi1>, tensor<3xi1>) {
  %0 = stablehlo.and %p, %p : tensor<3xi1>
  %1 = stablehlo.or %p, %p : tensor<3xi1>
  return %0, %1 : tensor<3xi1>, tensor<3xi1>
}

// CHECK-LABEL: func.func @and_true
// CHECK-SAME: (%[[P:.*]]: tensor<3xi1>)
// CHECK-NEXT: %[[FALSE:.*]] = stablehlo.constant dense<false>
// CHECK-NEXT: return %[[P]], %[[FALSE]]
func.func @and_true(%p: tensor<3xi1>) -> (tensor<3xi1>, tensor<3xi1>) {
  %true = stablehlo.constant dense<true> : tensor<3xi1>
  %false = stablehlo.constant dense<false> : tensor<3xi1>
  %0 = stablehlo.and %p, %true : tensor<3xi1>
  %1 = stablehlo.and %false, %p : tensor<3xi1>
  return %0, %1 : tensor<3xi1>, tensor<3xi1>
}

// CHECK-LABEL: func.func @or_false
// CHECK-SAME: (%[[P:.*]]: tensor<3xi1>)
// CHECK-NEXT: %[[TRUE:.*]] = stablehlo.constant dense<true>
// CHECK-NEXT: return %[[P]], %[[TRUE]]
func.func @or_false(%p: tensor<3xi1>) -> (tensor<3xi1>, tensor<3xi1>) {
  %true = stablehlo.constant dense<true> : tensor<3xi1>
  %false = stablehlo.constant dense<false> : tensor<3xi1>
  %0 = stablehlo.or %p, %false : tensor<3xi1>
  %1 = stablehlo.or %true, %p : tensor<3xi1>
  return %0, %1 : tensor<3xi1>, tensor<3xi1>
}

// CHECK-LABEL: func.func @power_of_constant
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-DAG: %[[ONE:.*]] = stablehlo.constant dense<1.0{{.*}}>
// CHECK-DAG: %[[SQUARE:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK-DAG: %[[INVERSE:.*]] = stablehlo.divide %[[ONE]], %[[X]]
// CHECK: return %[[ONE]], %[[X]], %[[SQUARE]], %[[INVERSE]]
func.func @power_of_constant(%x: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<3xf32>
  %1 = stablehlo.constant dense<1.0> : tensor<3xf32>
  %2 = stablehlo.constant dense<2.0> : tensor<3xf32>
  %3 = stablehlo.constant dense<-1.0> : tensor<3xf32>
  %4 = stablehlo.power %x, %0 : tensor<3xf32>
  %5 = stablehlo.power %x, %1 : tensor<3xf32>
  %6 = stablehlo.power %x, %2 : tensor<3xf32>
  %7 = stablehlo.power %x, %3 : tensor<3xf32>
  return %4, %5, %6, %7 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @fold
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<-4.0{{.*}}> : tensor<3xf32>
// CHECK-NEXT: return %[[C]]
func.func @fold() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<2.5> : tensor<3xf32>
  %1 = stablehlo.constant dense<4.0> : tensor<3xf32>
  %2 = stablehlo.floor %0 : tensor<3xf32>
  %3 = stablehlo.sqrt %1 : tensor<3xf32>
  %4 = stablehlo.add %2, %3 : tensor<3xf32>
  %5 = stablehlo.negate %4 : tensor<3xf32>
  return %5 : tensor<3xf32>
}

// CHECK-LABEL: func.func @fold_divide
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<0.333333343> : tensor<3xf32>
// CHECK-NEXT: return %[[C]]
func.func @fold_divide() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<3xf32>
  %1 = stablehlo.constant dense<3.0> : tensor<3xf32>
  %2 = stablehlo.divide %0, %1 : tensor<3xf32>
  return %2 : tensor<3xf32>
}

// 300 does not fit into eight bits: what the conversion gives is the compiler's affair.
// CHECK-LABEL: func.func @fold_convert
// CHECK-DAG: %[[C:.*]] = stablehlo.constant dense<2> : tensor<3xi32>
// CHECK-DAG: %[[D:.*]] = stablehlo.convert {{.*}} -> tensor<3xi8>
// CHECK: return %[[C]], %[[D]]
func.func @fold_convert() -> (tensor<3xi32>, tensor<3xi8>) {
  %0 = stablehlo.constant dense<2.5> : tensor<3xf32>
  %1 = stablehlo.constant dense<300> : tensor<3xi32>
  %2 = stablehlo.convert %0 : (tensor<3xf32>) -> tensor<3xi32>
  %3 = stablehlo.convert %1 : (tensor<3xi32>) -> tensor<3xi8>
  return %2, %3 : tensor<3xi32>, tensor<3xi8>
}

// A value is equal to itself if it cannot be NaN.
// CHECK-LABEL: func.func @fold_compare
// CHECK-SAME: (%[[I:.*]]: tensor<3xi32>, %[[X:.*]]: tensor<3xf32>)
// CHECK-DAG: %[[TRUE:.*]] = stablehlo.constant dense<true>
// CHECK-DAG: %[[F:.*]] = stablehlo.compare {{ *}}EQ, %[[X]], %[[X]]
// CHECK: return %[[TRUE]], %[[TRUE]], %[[F]]
func.func @fold_compare(%i: tensor<3xi32>, %x: tensor<3xf32>) -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>) {
  %0 = stablehlo.constant dense<1.0> : tensor<3xf32>
  %1 = stablehlo.constant dense<2.0> : tensor<3xf32>
  %2 = stablehlo.compare LT, %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %3 = stablehlo.compare EQ, %i, %i : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
  %4 = stablehlo.compare EQ, %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %2, %3, %4 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>
}

// What a user wrote keeps its signs of zeros: -0 + 0 is 0, so is 0 - 0; -0 + -0 is -0.
// CHECK-LABEL: func.func @signs_of_zeros
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK: stablehlo.add %[[X]],
// CHECK-NEXT: stablehlo.subtract %{{.*}}, %[[X]]
// CHECK-NOT: stablehlo
// CHECK: return %{{.*}}, %{{.*}}, %[[X]], %[[X]]
func.func @signs_of_zeros(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<3xf32>
  %n = stablehlo.constant dense<-0.0> : tensor<3xf32>
  %0 = stablehlo.add %x, %c : tensor<3xf32>
  %1 = stablehlo.subtract %c, %x : tensor<3xf32>
  %2 = stablehlo.add %x, %n : tensor<3xf32>
  %3 = stablehlo.subtract %x, %c : tensor<3xf32>
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// A format with all bits of the dtype rounds nothing; f64 has 11 and 52.
// CHECK-LABEL: func.func @reduce_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<3xf64>)
// CHECK-NEXT: %[[Y:.*]] = stablehlo.reduce_precision %[[X]], format = e8m52
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @reduce_nothing(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %0 = stablehlo.reduce_precision %x, format = e11m52 : tensor<3xf64>
  %1 = stablehlo.reduce_precision %x, format = e8m52 : tensor<3xf64>
  return %0, %1 : tensor<3xf64>, tensor<3xf64>
}

// The real part and the conjugate of a real number are the number.
// CHECK-LABEL: func.func @part_of_real
// CHECK-SAME: (%[[X:.*]]: tensor<3xf64>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @part_of_real(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %0 = stablehlo.real %x : (tensor<3xf64>) -> tensor<3xf64>
  %1 = chlo.conj %x : tensor<3xf64> -> tensor<3xf64>
  return %0, %1 : tensor<3xf64>, tensor<3xf64>
}
