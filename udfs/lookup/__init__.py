"""Lookups: rows enriched from systems outside, asked concurrently, in the orders of Flink's asynchronous operator."""
