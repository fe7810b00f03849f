"""The session of the suite, of which there is one for all engines, as of a database server."""

from __future__ import annotations

from sqlstream.sqlalchemy import dialect
from sqlstream.testing.spark import LocalSession


class _Server(LocalSession):
    """Its Spark is sized for tables of a few rows."""

    def close(self) -> None:
        """It goes on."""


def serve() -> None:
    """Lets every engine that is made from now on connect to one session, which has the schemas of the suite."""
    server = _Server()
    server.sql("CREATE DATABASE test_schema; CREATE DATABASE test_schema_2")
    dialect._opened = lambda **arguments: server
