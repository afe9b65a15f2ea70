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

  // The value itself; its tangent is zero.
  irdl.operation @stop_gradient {
    %tensor = irdl.base "!builtin.tensor"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
  }
}
