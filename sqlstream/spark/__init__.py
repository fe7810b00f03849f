"""Spark for a session: its start, what we set and tune there, what its workers get, and its end."""
