"""nabla-simplify: the pass, its patterns by kind of operation, and the simplification of loops."""
