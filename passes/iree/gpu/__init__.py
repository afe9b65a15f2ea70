"""Kernels for NVIDIA GPUs, as text in Triton's dialect of MLIR (TTIR).

IREE 3.13 computes products of f32 on a GPU by scalar code: 1 to 2 TFLOP/s on an H100. Here a product or a convolution becomes
one kernel whose inner loop runs on the tensor cores:

    stablehlo.dot_general, stablehlo.convolution
      -> `Contraction`           (contraction.py, sources.py)  the axes, their sizes, and their strides in each array
      -> `Tiling`                (tiles.py)                     the cost model's choice
      -> text                    (product_kernel.py, writer.py) TTIR
      -> a `hal.executable.source` and its call                 (products_as_kernels.py)

`nabla_mlir.compiling.triton_kernels` compiles the text in a separate process, and puts the machine code into the module.
"""
