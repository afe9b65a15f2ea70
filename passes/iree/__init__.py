"""Passes that exist because of IREE: they replace code that IREE computes wrongly, cannot compile, or makes slow."""
