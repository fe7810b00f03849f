"""Joins of two streams: which rows match, and the kernels that keep rows of either side until their partners come."""
