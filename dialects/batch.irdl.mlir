// The dialect `batch`: map this region over named, sized axes.
//
// Read by `iree-opt --irdl-file=` and by tests; nabla_mlir/dialects/batch.py checks in addition what IRDL cannot
// say (that the axes and the types of operands and results fit the body).
irdl.dialect @batch {
  // in_axes[i] holds the place of each axis in operand i, or -1 where it is not carried; out_axes likewise.
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

  // The sum over the entries of `axis`, the same for each of them. Its adjoint is itself.
  irdl.operation @psum {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // The largest of the entries of `axis`. Entries that tie share the derivative.
  irdl.operation @pmax {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // The smallest of the entries of `axis`. Entries that tie share the derivative.
  irdl.operation @pmin {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands(input: %tensor)
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }

  // All entries of `axis`, stacked along a new dimension. Its adjoint is psum_scatter.
  irdl.operation @all_gather {
    %operand = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    %dimension = irdl.base "#builtin.integer"
    irdl.operands(input: %operand)
    irdl.results(output: %result)
    irdl.attributes { "axis" = %axis, "dimension" = %dimension }
  }

  // The sum over the entries of `axis`, of which entry i keeps slice i of `dimension`. Its adjoint is all_gather.
  irdl.operation @psum_scatter {
    %operand = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    %dimension = irdl.base "#builtin.integer"
    irdl.operands(input: %operand)
    irdl.results(output: %result)
    irdl.attributes { "axis" = %axis, "dimension" = %dimension }
  }

  // The place of an entry along `axis`.
  irdl.operation @axis_index {
    %tensor = irdl.base "!builtin.tensor"
    %axis = irdl.base "#builtin.string"
    irdl.operands()
    irdl.results(output: %tensor)
    irdl.attributes { "axis" = %axis }
  }
}
