"""Loops as vector code of our own: read into a graph, planned, written as one dispatch."""
