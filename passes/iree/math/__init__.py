"""Elementwise mathematics and Fourier transforms for IREE, which has no complete math library."""
