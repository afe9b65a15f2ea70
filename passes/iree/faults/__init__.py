"""Rewrites of code that IREE computes wrongly or refuses; each can be deleted when IREE has mended the fault.

The docstring of a pattern states the new form of an operation, and the fault of IREE that is the reason. A pattern returns None for
an operation that IREE compiles rightly.
"""
