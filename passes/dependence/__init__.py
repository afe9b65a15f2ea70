"""An analysis for sparse Jacobians and Hessians: for each element of each value, the inputs on which it depends."""
