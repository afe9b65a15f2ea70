"""What IREE computes wrongly or refuses, in terms of what it can: what may be deleted when IREE has mended it."""
