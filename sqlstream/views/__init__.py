"""Materialized views at work: their tables, their jobs, the server that keeps them by default, and ``serve``."""
