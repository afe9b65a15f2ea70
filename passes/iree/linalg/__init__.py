"""Factorisations and decompositions of matrices for IREE: our LAPACK."""
