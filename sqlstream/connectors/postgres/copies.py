"""The rows that a table of PostgreSQL has when a job begins, copied in parts by key into files of the checkpoint.

A part is in its file before the position that names it is written down, so that a micro-batch which is repeated reads
the same rows. Of each part the snapshot is known in which it was read, and with it which changes it holds: those of the
transactions that the snapshot sees. No lock is taken, and rows may change all the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.changes.copies import Key, TableCopier
from sqlstream.connectors.changes.positions import CopiedFile
from sqlstream.connectors.postgres.server import regclass
from sqlstream.paths import whole_file
from sqlstream.udfs.database_changes import ChangedTable, KeyColumn, lsn_of
from sqlstream.udfs.lookup.sources.postgres import PostgresError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from sqlstream.connectors.postgres.server import Connection

_WRITTEN_AT_ONCE = 2_000
"""Rows."""

_END = -1, b""
"""What libpq gives behind the last row of a COPY."""


@dataclass(frozen=True)
class CopyPlan:
    """How a table is copied. ``keys``: the key by which it is cut, none if it has none. ``condition``: of the rows that
    are published. ``rows``: of a part; ``files``: of a part.
    """

    table: ChangedTable
    keys: tuple[KeyColumn, ...]
    condition: str | None
    rows: int
    files: int

    @property
    def _source(self) -> str:
        return regclass((self.table.schema, self.table.table))

    def _where(self, after: Sequence[str] | None, until: Sequence[str] | None) -> str:
        conditions = [f"({self.condition})"] if self.condition else []
        for bound, sign in ((after, ">"), (until, "<=")):
            if bound is not None:
                conditions.append(f"({self._names}) {sign} ({self._literals(bound)})")
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    @property
    def _names(self) -> str:
        return ", ".join(regclass((key.name,)) for key in self.keys)

    def _literals(self, bound: Sequence[str]) -> str:
        return ", ".join(
            key.cast.format("'" + text.replace("'", "''") + "'") for key, text in zip(self.keys, bound, strict=True)
        )

    def bound(self, after: Sequence[str] | None) -> str:
        """The query of the key with which the part behind ``after`` ends; no row: it is the last part.

        The order is that of qualified columns: a bare name would be that of the text beside SELECT, by which the server
        would sort the whole table.
        """
        names = [regclass((key.name,)) for key in self.keys]
        texts, order = ", ".join(f"{name}::text" for name in names), ", ".join(f"part.{name}" for name in names)
        return (
            f"SELECT {texts} FROM {self._source} AS part{self._where(after, None)} ORDER BY {order} "
            f"OFFSET {self.rows - 1} LIMIT 1"
        )

    def copy(self, after: Sequence[str] | None, until: Sequence[str] | None) -> str:
        """The COPY of a part."""
        names = [c.stored for c in self.table.columns]
        listed = ", ".join(regclass((name,)) for name in dict.fromkeys(names)) or "1"
        query = f"SELECT {listed} FROM {self._source}{self._where(after, until)}"
        return f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)"


class PostgresCopier(TableCopier):
    """Copies by COPY, in a transaction of ``server``."""

    def __init__(self, server: Connection, plan: CopyPlan, folder: Path) -> None:
        self._server, self._plan, self._folder = server, plan, folder
        server.execute("SET statement_timeout = 0")
        server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((snapshot, lsn),) = server.execute(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        ).fetchall()
        super().__init__(snapshot, lsn_of(lsn))

    def bound(self, after: Key | None) -> Key | None:
        if not self._plan.keys:
            return None
        found = self._server.execute(self._plan.bound(after).encode()).fetchone()
        return None if found is None else tuple(map(str, found))

    def write(self, chunk: int, after: Key | None, until: Key | None) -> tuple[CopiedFile, ...]:
        """Files have what COPY gives, behind the names of the columns."""
        from psycopg import pq  # an optional package

        connection = self._server.pgconn
        if connection.exec_(self._plan.copy(after, until).encode()).status != pq.ExecStatus.COPY_OUT:
            raise PostgresError(connection.error_message.decode(errors="replace").strip())
        lines = _lines(connection)
        header = bytes(next(lines, b""))
        files: list[CopiedFile] = []
        for rows in _in_files(lines, -(-self._plan.rows // self._plan.files)):
            name, longest = f"{self.prefix}-{chunk}-{len(files)}.csv", len(header)
            with whole_file(self._folder / name) as file:
                file.write(header)
                for some in rows:
                    file.write(b"".join(some))
                    longest = max(longest, *map(len, some))
            files.append(CopiedFile(name, longest))
        while (result := connection.get_result()) is not None:
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise PostgresError(result.error_message.decode(errors="replace").strip())
        return tuple(files)

    def disconnect(self) -> None:
        self._server.close()


def _lines(connection: PGconn) -> Iterator[memoryview]:
    """The rows of a COPY. libpq has a call for each, and nothing else is done for a row in Python."""
    return map(itemgetter(1), iter(partial(connection.get_copy_data, 0), _END))


def _in_files(rows: Iterator[memoryview], most: int) -> Iterator[Iterator[list[memoryview]]]:
    """Divides rows among files, ``most`` in each. The rows of a file come in lists that are written at once, and must
    be taken before those of the next file.
    """
    while (first := next(rows, None)) is not None:
        yield iter(partial(_next_of, chain([first], islice(rows, most - 1))), [])


def _next_of(rows: Iterator[memoryview]) -> list[memoryview]:
    return list(islice(rows, _WRITTEN_AT_ONCE))
