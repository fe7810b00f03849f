"""Lookups: rows are enriched from external systems, asked concurrently, in the orders of Flink's asynchronous
operator."""
