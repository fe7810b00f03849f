"""``kafka`` and ``upsert-kafka``: topics as sources and sinks."""
