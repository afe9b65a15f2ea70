"""The algebra that derives sparsity patterns: it finds the inputs on which each element depends. Needs only NumPy."""
