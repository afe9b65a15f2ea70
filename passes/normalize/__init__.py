"""nabla-normalize: the pass, and what it computes at compile time."""
