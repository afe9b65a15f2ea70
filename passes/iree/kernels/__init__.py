"""Loops as vector code of nabla_mlir: each is read into a graph, planned, and written as one dispatch."""
