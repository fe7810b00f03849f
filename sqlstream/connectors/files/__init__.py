"""``filesystem``: files as streams, finished data, tables for lookups, and sinks."""
