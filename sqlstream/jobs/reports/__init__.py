"""What the reports of Spark's micro-batches say: progress, counts and what still waits."""
