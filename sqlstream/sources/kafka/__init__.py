"""Topics of Kafka: the partitions that there are, positions in them, and what the next micro-batch reads."""
