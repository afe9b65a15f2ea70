"""A CUDA driver without a GPU, on which IREE's unchanged CUDA runtime runs artifacts.

Three processes take part in a run: that of the tests starts one with IREE's runtime and `libcuda.so.1` (mock.c, client.py), and
one that interprets the kernels (simulator.py). The latter two have the memory of the device and two pipes in common. They are two
because IREE calls the driver from threads of its own while Python's lock is held.
"""
