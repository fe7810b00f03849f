"""Expressions over columns that kernels evaluate: conditions of joins, patterns and lookups."""
