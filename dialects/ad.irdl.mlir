// The dialect `ad`: differentiate this region.
//
// Read by `iree-opt --irdl-file=` and by tests; nabla_mlir/dialects/ad.py checks in addition what IRDL cannot say
// (that types of operands and results fit the body).
irdl.dialect @ad {
  // Operands: primals, then one tangent for each index of `wrt`.
  // Results: the results of the body, then one tangent for each index of `of`.
  irdl.operation @jvp {
    %tensor = irdl.base "!builtin.tensor"
    %wrt = irdl.base "#builtin.dense_array"
    %of = irdl.base "#builtin.dense_array"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "wrt" = %wrt, "of" = %of }
    %body = irdl.region with size 1
    irdl.regions(body: %body)
  }

  // Operands: primals, then one cotangent for each index of `of`.
  // Results: the results of the body, then one cotangent for each index of `wrt`.
  irdl.operation @vjp {
    %tensor = irdl.base "!builtin.tensor"
    %wrt = irdl.base "#builtin.dense_array"
    %of = irdl.base "#builtin.dense_array"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "wrt" = %wrt, "of" = %of }
    %body = irdl.region with size 1
    irdl.regions(body: %body)
  }

  // The operand, unchanged, with a zero tangent.
  irdl.operation @stop_gradient {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
  }

  // left * right elementwise, and 0 where left is 0, even if right is infinite or NaN.
  irdl.operation @product {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(left: %tensor, right: %tensor)
    irdl.results(output: %tensor)
  }

  // left / right elementwise, 0 where right is 0, and NaN where right is infinite; its derivative by right is infinite or NaN at 0.
  irdl.operation @quotient {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(left: %tensor, right: %tensor)
    irdl.results(output: %tensor)
  }

  // left / right elementwise for right = root ** (degree - 1), and not finite where root ** degree is 0, infinite, or so small that it
  // has lost digits.
  irdl.operation @slope {
    %tensor = irdl.base "!builtin.tensor"
    %degree = irdl.base "#builtin.float"
    irdl.operands(left: %tensor, right: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "degree" = %degree }
  }

  // left * right elementwise, and 0 where right is 0, whatever left is; its derivatives are right and left.
  irdl.operation @radial {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(left: %tensor, right: %tensor)
    irdl.results(output: %tensor)
  }

  // The root of the degree `degree`, elementwise. At 0, its first derivative is defined as 0; the second one is infinite or NaN.
  irdl.operation @root {
    %tensor = irdl.base "!builtin.tensor"
    %degree = irdl.base "#builtin.float"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "degree" = %degree }
  }

  // sqrt(left * left + right * right) elementwise without overflow; its first derivatives at the origin are defined as 0.
  irdl.operation @hypot {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(left: %tensor, right: %tensor)
    irdl.results(output: %tensor)
  }

  // base ** exponent * log(base) ** degree elementwise, and 0 where the power is 0, even if the logarithm is infinite.
  irdl.operation @power_log {
    %tensor = irdl.base "!builtin.tensor"
    %degree = irdl.base "#builtin.float"
    irdl.operands(base: %tensor, exponent: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "degree" = %degree }
  }

  // A function with its own forward rule. Operands: its arguments. Regions: `primal` from arguments to results; `rule`
  // from arguments and one tangent for each index of `wrt` to results and one tangent for each index of `of`.
  irdl.operation @custom_jvp {
    %tensor = irdl.base "!builtin.tensor"
    %wrt = irdl.base "#builtin.dense_array"
    %of = irdl.base "#builtin.dense_array"
    %name = irdl.base "#builtin.string"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "wrt" = %wrt, "of" = %of, "name" = %name }
    %primal = irdl.region with size 1
    %rule = irdl.region with size 1
    irdl.regions(primal: %primal, rule: %rule)
  }

  // A function with its own reverse rule. Operands: its arguments. Regions: `primal` from arguments to results; `fwd`
  // from arguments to results and residuals; `bwd` from residuals and one cotangent for each index of `of` to one
  // cotangent for each index of `wrt`.
  irdl.operation @custom_vjp {
    %tensor = irdl.base "!builtin.tensor"
    %wrt = irdl.base "#builtin.dense_array"
    %of = irdl.base "#builtin.dense_array"
    %name = irdl.base "#builtin.string"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "wrt" = %wrt, "of" = %of, "name" = %name }
    %primal = irdl.region with size 1
    %fwd = irdl.region with size 1
    %bwd = irdl.region with size 1
    irdl.regions(primal: %primal, fwd: %fwd, bwd: %bwd)
  }

  // A call, inside a rule of `custom_jvp` or `custom_vjp`, of the innermost custom function with this name, on other operands.
  irdl.operation @recur {
    %tensor = irdl.base "!builtin.tensor"
    %name = irdl.base "#builtin.string"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "name" = %name }
  }

  // The x with matvec(x) = b. Operands: b. Regions: `matvec`, linear in its arguments; `solve` from b to x;
  // `transpose_solve` from the right-hand side of the transposed system to its solution, which is used only if
  // `transposable` is true. Derivatives with respect to b, and to values from outside that `matvec` reads, are implicit: `solve` is
  // not differentiated.
  irdl.operation @linear_solve {
    %tensor = irdl.base "!builtin.tensor"
    %transposable = irdl.base "#builtin.integer"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "transposable" = %transposable }
    %matvec = irdl.region with size 1
    %solve = irdl.region with size 1
    %transpose_solve = irdl.region with size 1
    irdl.regions(matvec: %matvec, solve: %solve, transpose_solve: %transpose_solve)
  }

  // The results of the body, which has no arguments. Reverse mode recomputes the values of the body, except for values that
  // `policies` allow to store.
  irdl.operation @checkpoint {
    %tensor = irdl.base "!builtin.tensor"
    %policies = irdl.base "#builtin.array"
    %prevent_cse = irdl.base "#builtin.integer"
    %recompute = irdl.base "#builtin.integer"
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "policies" = %policies, "prevent_cse" = %prevent_cse, "recompute" = %recompute }
    %body = irdl.region with size 1
    irdl.regions(body: %body)
  }

  // The operand, unchanged, with a name for policies of checkpoints.
  irdl.operation @name {
    %tensor = irdl.base "!builtin.tensor"
    %name = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "name" = %name }
  }
}
