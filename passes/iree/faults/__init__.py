"""Rewrites of code that IREE computes wrongly or refuses; each can be deleted when IREE has mended the fault."""
