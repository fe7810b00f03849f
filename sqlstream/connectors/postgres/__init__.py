"""``postgres``, ``jdbc`` and ``postgres-cdc``: tables of PostgreSQL looked up and written, and their changes."""
