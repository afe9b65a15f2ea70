"""Which inputs each element of each value depends on: the analysis behind sparse Jacobians and Hessians."""
