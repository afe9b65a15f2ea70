"""What is there because of IREE: what it computes wrongly or cannot compile, and what it computes slowly."""
