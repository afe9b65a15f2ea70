"""Formats inside of IREE on which compilation depends: look at each file, or delete it, when IREE changes.

None of these formats has a promise of stability. Each row says which format a file depends on, the version of IREE for which it
was written, what it buys, and the test that fails when the format changes. The counterpart for passes is
`nabla_mlir.passes.iree.internals`; wrong results and refusals of IREE are in `nabla_mlir.passes.iree.faults.table`.

Times of compilation are those of Hessian-vector products of bench/, each the best of three cold compilations on two cores of an
AMD EPYC, 2026-11-28. A feature has no time: without the file, the feature is gone.

| file | depends on | IREE | buys | test |
|---|---|---|---|---|
| archive.py | zip records with 64-bit sizes; fields 9, 3 and 4 of the FlatBuffer | 3.13 | kernel_library.py, register_lists.py | tests/deploy/test_kernel_library.py::test_a_file_of_an_artifact_in_the_place_of_another |
| arena.py | allocations and branches of stream IR | 3.13 | 8 % of a call (LSTM of 100 steps), 92 MB less variation of its memory | tests/deploy/test_transients.py::test_loops_allocate_only_in_their_turns |
| block_arguments.py | order of the copies of a branch; registers of numbers of 64 bits | 3.13 | correctness: wrong numbers | tests/passes/test_block_arguments.py::test_iree_still_overwrites_a_number |
| c_scalars.py | arithmetic of host programs | 3.13 | host_program.py | tests/deploy/test_static_library.py::test_the_numbers_of_python |
| disassembly.py | text of iree-dump-module | 3.13 | memory.py, references.py, held_references.py, block_arguments.py | tests/deploy/test_stated_memory.py::test_what_is_stated_is_what_is_allocated |
| dumps.py | names of dumped phases and of a library's query | 3.13 | host_program.py | tests/deploy/test_static_library.py::test_the_numbers_of_python |
| executables.py | order of exports and code in an executable; ordinals | 3.13 | kernel_library.py, libraries.py | tests/deploy/test_libraries.py::test_kernels_are_shared_by_the_work_of_the_compiler |
| flow.py | text of the flow phase | 3.13 | feature: kernels in the explorer | tests/explorer/test_document.py::test_kernels_know_their_operations |
| held_references.py | copies of references between blocks | 3.13 | loops that do not compile otherwise: four solves of Diffrax | tests/passes/test_lost_buffers.py::test_a_buffer_is_held |
| host_program.py | host program after translation of executables | 3.13 | feature: static libraries without IREE's runtime | tests/deploy/test_static_library.py::test_the_numbers_of_python |
| kernel_library.py | compilation of one executable alone; names of its files | 3.13 | 8 % of a compilation (mean of 8, from -2 to 20 %) | tests/deploy/test_kernel_library.py::test_kernels_apart_compute_the_same |
| libraries.py | executables before code generation | 3.13 | 9 % of a compilation without kernel_library.py (mean of 8, from -1 to 19 %) | tests/deploy/test_libraries.py::test_two_libraries_compute_the_same |
| machine_code.py | objects and shared memory of executables; the printed target | 3.13 | feature: kernels of passes/iree/gpu | tests/passes/test_gpu_kernels.py::test_a_kernel_is_compiled_once |
| memory.py | operands 7, 4 and 4 of the calls that allocate and free | 3.13 | feature: memory limits, and the memory of a call | tests/deploy/test_stated_memory.py::test_what_is_stated_is_what_is_allocated |
| messages.py | texts of the compiler, its linker and the loader | 3.13 | feature: useful lines and advice in errors | tests/deploy/test_compiler.py::test_a_refused_module_shows_the_useful_lines_and_the_users_place |
| phases.py | names of phases; passes that may run unverified | 3.13 | with libraries.py 23 to 43 % of a compilation (5 programs) | tests/deploy/test_compiler.py::test_a_long_module_is_compiled_in_two_steps_to_the_same_bytes |
| references.py | calls of queues in disassembled text: operands 2 and 3 are fences | 3.13 | correctness: a call would fail | tests/passes/test_lost_buffers.py::test_iree_still_loses_a_buffer |
| register_lists.py | pairs of 16-bit registers in bytecode; bits 0x8000 and 0x4000 | 3.13 | block_arguments.py, held_references.py | tests/passes/test_lost_buffers.py::test_a_buffer_is_held |
| transients.py | functions with the suffix _transients_size; reflection of functions | 3.13 | 7 to 45 % of a call (6 programs with more than 64 MiB of values) | tests/deploy/test_transients.py::test_the_size_is_said |
"""  # noqa: E501
