"""Reads the reports of Spark's micro-batches: progress, counts, and what still waits."""
