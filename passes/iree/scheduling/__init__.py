"""How IREE should compute what it would compute slowly: tiles, forms of products, slices in place."""
