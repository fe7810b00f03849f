"""dbt's own suite for adapters, on ours: ``make test-dbt``."""
