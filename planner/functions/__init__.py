"""What functions there are and what they are, without Spark."""
