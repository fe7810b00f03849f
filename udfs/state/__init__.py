"""The state of kernels as few columnar entries of a store, so that a batch only pays for what it touches."""
