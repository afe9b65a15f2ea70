"""An interpreter of PTX, NVIDIA's assembly language, on NumPy.

It computes the numbers of a kernel, and counts the instructions of its warps, the sectors of its global accesses and the
wavefronts of its shared accesses. A register is one array over all threads of the blocks that run together.

    text -> `Kernel`             (parser.py)
    `Kernel`, arguments, grid    (simulator.py)  control flow, barriers, launches
    registers and special values (threads.py)
    memory spaces, counters      (memory.py, counters.py)
    instructions                 (instructions.py names the files)

Not modelled: the rounding of sums inside tensor cores (they are exact here, rounded once), the order of memory accesses of
threads, and `wgmma` without a wait for its result. A `cp.async` without a wait does show: its bytes arrive only when a
thread waits for them. An instruction, or a modifier of one, that the interpreter does not have raises `Unsupported`.
"""
