"""GROUP BY without windows: aggregates per key over all rows so far, updated as rows are inserted and retracted."""
