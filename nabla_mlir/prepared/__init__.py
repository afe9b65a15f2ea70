"""Prepared products: derivatives at a point, compiled in two halves, as modules and as operators."""
