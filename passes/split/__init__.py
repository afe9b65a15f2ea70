"""nabla-split: the pass, and how the residuals are chosen."""
