"""Rewrites for speed: tiles, forms of products, fused kernels, and memory."""
