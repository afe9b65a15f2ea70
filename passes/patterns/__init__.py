"""The rewrites of nabla-simplify, by kind of operation."""
