"""SQLAlchemy's own suite for dialects, against ``sqlstream://``: ``make test-dbapi`` runs all of it."""
