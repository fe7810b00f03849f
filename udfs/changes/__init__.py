"""Changes of rows: kernels that keep what is there by key."""
