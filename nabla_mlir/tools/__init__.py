"""The commands: nabla-mlir for users, nabla-opt for IR."""
