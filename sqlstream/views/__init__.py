"""Materialized views: their tables and jobs, the server that stores them by default, and ``serve``."""
