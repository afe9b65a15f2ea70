// RUN: nabla-opt %s --nabla-fold-numbers --nabla-dce | filecheck %s

// What is made of numbers alone is one, of what shape it may be.
// CHECK-LABEL: func.func @power_of_two
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<3xf64>
// CHECK-NEXT: stablehlo.multiply %arg0, %[[C]]
// CHECK-NEXT: return
func.func @power_of_two(%x: tensor<3xf64>) -> tensor<3xf64> {
  %three = stablehlo.constant dense<3.9> : tensor<3xf64>
  %bias = stablehlo.constant dense<1023> : tensor<3xi64>
  %place = stablehlo.constant dense<52> : tensor<3xi64>
  %0 = stablehlo.convert %three : (tensor<3xf64>) -> tensor<3xi64>
  %1 = stablehlo.add %0, %bias : tensor<3xi64>
  %2 = stablehlo.shift_left %1, %place : tensor<3xi64>
  %3 = stablehlo.bitcast_convert %2 : (tensor<3xi64>) -> tensor<3xf64>
  %4 = stablehlo.multiply %x, %3 : tensor<3xf64>
  return %4 : tensor<3xf64>
}

// A shift of signed numbers puts zeros above them if it is logical, and signs if it is arithmetic.
// CHECK-LABEL: func.func @shifts
// CHECK-DAG: stablehlo.constant dense<1> : tensor<i32>
// CHECK-DAG: stablehlo.constant dense<-1> : tensor<i32>
// CHECK-NOT: stablehlo.shift
func.func @shifts() -> (tensor<i32>, tensor<i32>) {
  %x = stablehlo.constant dense<-2> : tensor<i32>
  %n = stablehlo.constant dense<31> : tensor<i32>
  %0 = stablehlo.shift_right_logical %x, %n : tensor<i32>
  %1 = stablehlo.shift_right_arithmetic %x, %n : tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}

// A choice by a number, of one of two.
// CHECK-LABEL: func.func @choice
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<2.500000e-01> : tensor<2xf32>
// CHECK-NEXT: return %[[C]]
func.func @choice() -> tensor<2xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %quarter = stablehlo.constant dense<0.25> : tensor<2xf32>
  %half = stablehlo.constant dense<0.5> : tensor<2xf32>
  %0 = stablehlo.compare LT, %one, %two : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.select %0, %quarter, %half : tensor<i1>, tensor<2xf32>
  return %1 : tensor<2xf32>
}

// Choices by a truth value that is known, and conjunctions with one, are one of their operands.
// CHECK-LABEL: func.func @known
// CHECK-NEXT: %[[NO:.*]] = stablehlo.constant dense<false> : tensor<3xi1>
// CHECK-NEXT: return %arg0, %arg1, %[[NO]], %arg2
func.func @known(%x: tensor<3xf32>, %y: tensor<3xf32>, %p: tensor<3xi1>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>) {
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %no = stablehlo.constant dense<false> : tensor<3xi1>
  %0 = stablehlo.select %yes, %x, %y : tensor<i1>, tensor<3xf32>
  %1 = stablehlo.select %no, %x, %y : tensor<3xi1>, tensor<3xf32>
  %2 = stablehlo.and %p, %no : tensor<3xi1>
  %3 = stablehlo.or %no, %p : tensor<3xi1>
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>
}

// A square root is rounded once, and 0 / 0 is no number.
// CHECK-LABEL: func.func @rounded_once
// CHECK-DAG: stablehlo.constant dense<1.41421354> : tensor<f32>
// CHECK-DAG: stablehlo.constant dense<0x7FC00000> : tensor<f32>
// CHECK-NOT: stablehlo.sqrt
func.func @rounded_once() -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.sqrt %two : tensor<f32>
  %1 = stablehlo.divide %zero, %zero : tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// These stay: a function, which a device rounds as it does; what has no place in its type; the whole part of a quotient; an
// order in which -0 is less than 0; elements that differ.
// CHECK-LABEL: func.func @others
// CHECK: stablehlo.exponential
// CHECK: stablehlo.convert
// CHECK: stablehlo.divide
// CHECK: stablehlo.compare
// CHECK: stablehlo.add
func.func @others() -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %large = stablehlo.constant dense<1.0e10> : tensor<f32>
  %seven = stablehlo.constant dense<7> : tensor<i32>
  %pair = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = stablehlo.exponential %large : tensor<f32>
  %2 = stablehlo.convert %large : (tensor<f32>) -> tensor<i32>
  %3 = stablehlo.divide %seven, %seven : tensor<i32>
  %4 = stablehlo.compare LT, %zero, %zero, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %5 = stablehlo.add %pair, %pair : tensor<2xf32>
  return %0, %2, %3, %4, %5 : tensor<f32>, tensor<i32>, tensor<i32>, tensor<i1>, tensor<2xf32>
}

// Complex numbers are made of two, and their parts are numbers again: (1 + 2i) (3 - i) - (5 + 5i) = 0, and 2i / 2 = i.
// CHECK-LABEL: func.func @complex
// CHECK-DAG: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-DAG: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// CHECK-DAG: %[[NONE:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// CHECK: %[[I:.*]] = stablehlo.complex %[[NONE]], %[[ONE]] : tensor<complex<f64>>
// CHECK-NEXT: return %[[ZERO]], %[[I]]
func.func @complex() -> (tensor<2xf32>, tensor<complex<f64>>) {
  %one = stablehlo.constant dense<1.0> : tensor<2xf32>
  %two = stablehlo.constant dense<2.0> : tensor<2xf32>
  %three = stablehlo.constant dense<3.0> : tensor<2xf32>
  %five = stablehlo.constant dense<5.0> : tensor<2xf32>
  %minus = stablehlo.negate %one : tensor<2xf32>
  %0 = stablehlo.complex %one, %two : tensor<2xcomplex<f32>>
  %1 = stablehlo.complex %three, %minus : tensor<2xcomplex<f32>>
  %2 = stablehlo.complex %five, %five : tensor<2xcomplex<f32>>
  %3 = stablehlo.multiply %0, %1 : tensor<2xcomplex<f32>>
  %4 = stablehlo.subtract %3, %2 : tensor<2xcomplex<f32>>
  %5 = stablehlo.imag %4 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f64>
  %both = stablehlo.constant dense<2.0> : tensor<f64>
  %6 = stablehlo.complex %none, %both : tensor<complex<f64>>
  %7 = stablehlo.complex %both, %none : tensor<complex<f64>>
  %8 = stablehlo.divide %6, %7 : tensor<complex<f64>>
  return %5, %8 : tensor<2xf32>, tensor<complex<f64>>
}
