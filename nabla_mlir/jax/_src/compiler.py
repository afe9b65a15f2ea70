"""The compiler of JAX, under its private name. There is nothing in it: IREE compiles."""
