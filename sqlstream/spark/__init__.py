"""Spark for a session: starting, settings, tuning, the package for workers, stopping."""
