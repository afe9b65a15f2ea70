"""nabla-split: the pass, and the choice of the residuals."""
