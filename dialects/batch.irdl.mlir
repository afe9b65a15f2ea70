// The dialect `batch`: map this region over named, sized axes.
//
// Read by `iree-opt --irdl-file=` and by tests; nabla_mlir/dialects/batch.py checks in addition what IRDL cannot
// say (that the axes and the types of operands and results fit the body).
irdl.dialect @batch {
  // The body for each index along the named axes. in_axes[i][k] is the dimension of operand i that is axis k, or -1 if the operand
  // does not have this axis; out_axes is the same for results.
  irdl.operation @vmap {
    %tensor = irdl.base "!builtin.tensor"
    %axes = irdl.base "#builtin.array"
    %sizes = irdl.base "#builtin.dense_array"
    %in_axes = irdl.base "#builtin.array"
    %out_axes = irdl.base "#builtin.array"
    irdl.operands(inputs: variadic %tensor)
    irdl.results(outputs: variadic %tensor)
    irdl.attributes { "axes" = %axes, "sizes" = %sizes, "in_axes" = %in_axes, "out_axes" = %out_axes }
    %body = irdl.region with size 1
    irdl.regions(body: %body)
  }

  // The sum over all entries along `axis`; each entry gets the same sum. The adjoint of psum is psum.
  irdl.operation @psum {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // The largest of the entries along `axis`. Equal largest entries share the derivative.
  irdl.operation @pmax {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // The smallest of the entries along `axis`. Equal smallest entries share the derivative.
  irdl.operation @pmin {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // All entries along `axis`, stacked along the new dimension `dimension`. The adjoint of all_gather is psum_scatter.
  irdl.operation @all_gather {
    %operand = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    %dimension = irdl.base "#builtin.integer"
    irdl.operands(input: %operand)
    irdl.results(output: %result)
    irdl.attributes { "axis" = %axis, "dimension" = %dimension }
  }

  // The sum over all entries along `axis`; entry i gets slice i of the sum along `dimension`. The adjoint of psum_scatter is
  // all_gather.
  irdl.operation @psum_scatter {
    %operand = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    %dimension = irdl.base "#builtin.integer"
    irdl.operands(input: %operand)
    irdl.results(output: %result)
    irdl.attributes { "axis" = %axis, "dimension" = %dimension }
  }

  // The index of the entry along `axis`.
  irdl.operation @axis_index {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands()
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }
}
