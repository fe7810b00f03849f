"""Deterministic tests of streaming SQL: ``StreamTest``, golden files and case files."""
