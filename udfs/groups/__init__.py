"""Aggregates per key over all rows that ever came: their results are updated as rows come and go."""
