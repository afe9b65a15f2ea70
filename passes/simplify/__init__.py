"""nabla-simplify: the pass, its patterns by kind of operation, and what it does to loops."""
