"""What IREE cannot compile, or computes wrongly, in terms of what it can: a pattern for each, by operation."""
