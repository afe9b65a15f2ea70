// RUN: nabla-opt %s --nabla-loops-as-kernels | filecheck %s

// A product is summed in registers, the rows of the matrix as vectors; what follows it is one nest. The state lies twice
// in memory, and an iteration reads one copy and writes the other.
// CHECK-LABEL: hal.executable.source private @loop_0
// CHECK: %[[STATE:.*]] = memref.alloca() : memref<64xf32>
// CHECK: scf.while (%{{.*}} : (i32, index)
// CHECK: %[[SUMS:.*]]:4 = scf.for
// CHECK-COUNT-4: vector.fma
// CHECK: scf.for
// CHECK: math.tanh %{{.*}} : vector<8xf32>
// CHECK: vector.store %{{.*}}, %[[STATE]]

// The tape is the result itself, and is written where it is computed.
// CHECK-LABEL: hal.executable.source private @loop_1
// CHECK: %[[TAPE:.*]] = hal.interface.binding.subspan {{.*}} : memref<60xf32>
// CHECK: scf.while
// CHECK: %[[NEW:.*]] = arith.mulf {{.*}} : vector<12xf32>
// CHECK: vector.store %[[NEW]], %{{.*}} : memref<24xf32>
// CHECK: vector.store %[[NEW]], %[[TAPE]]

// A sort merges in memory of twice its size. A branch runs one of its regions.
// CHECK-LABEL: hal.executable.source private @loop_5
// CHECK: %[[BOTH:.*]] = memref.alloca() : memref<48xf32>
// CHECK: scf.while
// CHECK: scf.for
// CHECK: memref.store %{{.*}}, %[[BOTH]]
// CHECK: %[[TEST:.*]] = arith.cmpf ogt
// CHECK: scf.if %[[TEST]] {
// CHECK: math.sin %{{.*}} : vector<16xf32>
// CHECK: } else {

// CHECK-LABEL: func.func @product
// CHECK: flow.dispatch @loop_0::@loop_0(%arg1, %arg0)
// CHECK-NOT: stablehlo.while
func.func @product(%w: tensor<8x8xf32>, %h: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %x = %h) : tensor<i32>, tensor<4x8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.tanh %1 : tensor<4x8xf32>
    %3 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %3, %2 : tensor<i32>, tensor<4x8xf32>
  }
  return %0#1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @tape
// CHECK: flow.dispatch @loop_1::@loop_1(%arg0)
func.func @tape(%x: tensor<12xf32>) -> tensor<5x12xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<5x12xf32>
  %0:3 = stablehlo.while(%i = %zero, %y = %x, %ys = %empty) : tensor<i32>, tensor<12xf32>, tensor<5x12xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.multiply %y, %y : tensor<12xf32>
    %2 = stablehlo.reshape %1 : (tensor<12xf32>) -> tensor<1x12xf32>
    %3 = stablehlo.dynamic_update_slice %ys, %2, %i, %zero : (tensor<5x12xf32>, tensor<1x12xf32>, tensor<i32>, tensor<i32>) -> tensor<5x12xf32>
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %1, %3 : tensor<i32>, tensor<12xf32>, tensor<5x12xf32>
  }
  return %0#2 : tensor<5x12xf32>
}

// A large loop stays: its dispatches can use all cores.
// CHECK-LABEL: func.func @large
// CHECK: stablehlo.while
func.func @large(%x: tensor<1200000xf32>) -> tensor<1200000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<1200000xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.multiply %y, %y : tensor<1200000xf32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %2, %1 : tensor<i32>, tensor<1200000xf32>
  }
  return %0#1 : tensor<1200000xf32>
}

// A loop with an operation for which there is no code stays as it is; the loop inside becomes a kernel.
// CHECK-LABEL: func.func @rounded
// CHECK: stablehlo.while
// CHECK: stablehlo.convert {{.*}} -> tensor<12xbf16>
// CHECK: flow.dispatch @loop_4::@loop_4
// CHECK-NOT: stablehlo.while
func.func @rounded(%x: tensor<12xf32>) -> tensor<12xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<12xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.convert %y : (tensor<12xf32>) -> tensor<12xbf16>
    %2 = stablehlo.convert %1 : (tensor<12xbf16>) -> tensor<12xf32>
    %3:2 = stablehlo.while(%j = %zero, %z = %2) : tensor<i32>, tensor<12xf32>
    cond {
      %c = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %4 = stablehlo.multiply %z, %z : tensor<12xf32>
      %5 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %5, %4 : tensor<i32>, tensor<12xf32>
    }
    %6 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %6, %3#1 : tensor<i32>, tensor<12xf32>
  }
  return %0#1 : tensor<12xf32>
}

// CHECK-LABEL: func.func @sorted
// CHECK-NOT: stablehlo.while
func.func @sorted(%x: tensor<24xf32>) -> tensor<24xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %edge = stablehlo.constant dense<0.5> : tensor<f32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<24xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = "stablehlo.sort"(%y) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) {dimension = 0 : i64} : (tensor<24xf32>) -> tensor<24xf32>
    %2 = stablehlo.slice %1 [0:1] : (tensor<24xf32>) -> tensor<1xf32>
    %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
    %4 = stablehlo.compare GT, %3, %edge : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = "stablehlo.if"(%4) ({
      %7 = stablehlo.sine %1 : tensor<24xf32>
      stablehlo.return %7 : tensor<24xf32>
    }, {
      stablehlo.return %1 : tensor<24xf32>
    }) : (tensor<i1>) -> tensor<24xf32>
    %6 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %6, %5 : tensor<i32>, tensor<24xf32>
  }
  return %0#1 : tensor<24xf32>
}
