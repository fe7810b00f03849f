"""State of kernels as few columnar entries of a store, so that a batch costs what it touches."""
