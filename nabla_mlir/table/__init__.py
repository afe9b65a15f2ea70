"""What a record of an operation is, and what its rules are written with: tensors, kinds, batching, promotion."""
