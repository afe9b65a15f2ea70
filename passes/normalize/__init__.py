"""nabla-normalize: the pass, and the values that it computes at compile time."""
