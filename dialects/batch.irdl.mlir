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
}
