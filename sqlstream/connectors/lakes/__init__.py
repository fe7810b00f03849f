"""``delta`` and ``iceberg``: tables of the lake as sources, tables for lookups, and sinks."""
