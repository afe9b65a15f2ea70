"""Compilation of lowered modules to machine code: IREE's compiler, its cache, artifacts, static libraries and tuning."""
