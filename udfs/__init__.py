"""Kernels of stateful operators, and the Python functions of users."""
