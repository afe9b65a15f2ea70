"""Which inputs each element of an array depends on: the algebra that derives sparsity patterns, on NumPy alone."""
