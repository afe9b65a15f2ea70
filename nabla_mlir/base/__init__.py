"""Foundations that know neither MLIR nor IREE: errors, locks, files, the log, thresholds, arrays of other systems, pytrees."""
