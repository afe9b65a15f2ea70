"""Elementwise mathematics and Fourier transforms for IREE: our libm."""
