"""Stateful functions: kernels, their harness and the Spark adapter; Python functions of users."""
