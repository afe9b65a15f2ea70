"""The algebra of sparsity patterns: it finds the inputs on which each element depends. It needs only NumPy."""
