"""Formats inside of IREE that passes emit: look at each file, or delete it, when IREE changes.

None of these formats has a promise of stability. The columns are those of `nabla_mlir.compiling.internals`, the counterpart for
compilation.

| file | depends on | IREE | buys | test |
|---|---|---|---|---|
| barriers.py | barriers on the host stay until code is generated | 3.13 | correctness: separate buffers for copies | tests/passes/test_iree_faults.py::test_the_cures_are_right |
| buffers.py | numbers of memory types and usages; aliases, transients and topology of the dialects hal and stream | 3.13 | 7 to 45 % of a call (6 programs with more than 64 MiB of values) | tests/deploy/test_transients.py::test_calls_find_their_memory_again |
| codegen.py | attributes of tiles; the gather of the dialect iree_linalg_ext | 3.13 | 21 to 95 % of a product (scheduling/tiles.py), 67 % of a gather of rows | tests/passes/test_schedule.py::test_products |
| dispatches.py | calls of kernels in flow IR: tied operands, operand segments, loads and stores of workgroups | 3.13 | all of kernels/ | tests/passes/test_loop_kernels.py::test_kernels |
| executables.py | text of executables: bindings, constants, workgroups | 3.13 | all of kernels/ | tests/passes/test_dense_kernels.py::test_kernels_are_lapack |
| triton_sources.py | executables without code: bindings in order are the arguments of a kernel | 3.13 | feature: kernels of passes/iree/gpu | tests/passes/test_gpu_kernels.py::test_a_kernel_is_compiled_once |
"""  # noqa: E501
