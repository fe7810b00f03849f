"""Ibis's own tests of its backend for Flink, run against ours: ``python -m tests.ibis_suite``."""
