"""Functions under the names of SciPy."""
