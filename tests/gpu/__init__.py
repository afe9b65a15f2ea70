"""Tests of code for NVIDIA GPUs on machines without one: an interpreter of PTX (ptx/) and a CUDA driver without a GPU (driver/)."""
