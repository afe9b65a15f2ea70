"""Factorisations and decompositions of matrices for IREE, which has no LAPACK."""
