"""The class of records, and the means to write their rules: tensors, kinds, batching, promotion."""
