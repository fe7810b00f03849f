"""The rows that a table of PostgreSQL has when a job begins, copied in parts by key into files of the checkpoint.

A part is in its file before the position that names it is written down, so that a micro-batch which is repeated reads
the same rows. Of each part the snapshot is known in which it was read, and with it which changes it holds: those of the
transactions that the snapshot sees. No lock is taken, and rows may change all the time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.connectors.changes.positions import CopiedFile, Position, lsn_of
from sqlstream.connectors.postgres.server import regclass
from sqlstream.udfs.database_changes import ChangedTable, KeyColumn
from sqlstream.udfs.lookup.sources.postgres import PostgresError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

    from sqlstream.connectors.postgres.server import Connection

_WRITTEN_AT_ONCE = 2_000


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
        """The query of the key with which the part behind ``after`` ends; no row: it is the last part."""
        texts = ", ".join(f"{regclass((key.name,))}::text" for key in self.keys)
        return (
            f"SELECT {texts} FROM {self._source}{self._where(after, None)} ORDER BY {self._names} "
            f"OFFSET {self.rows - 1} LIMIT 1"
        )

    def copy(self, after: Sequence[str] | None, until: Sequence[str] | None) -> str:
        """The COPY of a part."""
        names = [c.stored for c in self.table.columns]
        listed = ", ".join(regclass((name,)) for name in dict.fromkeys(names)) or "1"
        query = f"SELECT {listed} FROM {self._source}{self._where(after, until)}"
        return f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)"


@dataclass(frozen=True)
class _Part:
    files: tuple[CopiedFile, ...]
    until: tuple[str, ...] | None


class TableCopier:
    """Copies a table into files of ``folder``, all of it in one snapshot. The next part is copied while the last one is
    read.
    """

    def __init__(self, server: Connection, plan: CopyPlan, folder: Path) -> None:
        self._server, self._plan, self._folder = server, plan, folder
        server.execute("SET statement_timeout = 0")
        server.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((self.snapshot, lsn),) = server.execute(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        ).fetchall()
        self.unseen = lsn_of(lsn)
        self._worker = ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[_Part]] | None = None

    def next(self, position: Position) -> Position:
        """The position behind the next part, which is in files now."""
        chunk, after = position.chunk, position.after
        assert chunk is not None, "the rows that were there are all read"
        if self._ahead is not None and self._ahead[0] == chunk:
            part = self._ahead[1].result()
        else:
            part = self._copied(chunk, after)
        following = position.copied(part.files, part.until, self.snapshot, self.unseen)
        if part.until is None:
            self.close()
        else:
            self._ahead = (chunk + 1, self._worker.submit(self._copied, chunk + 1, part.until))
        return following

    def _copied(self, chunk: int, after: tuple[str, ...] | None) -> _Part:
        until = None
        if self._plan.keys:
            found = self._server.execute(self._plan.bound(after).encode()).fetchone()
            until = None if found is None else tuple(map(str, found))
        return _Part(self._write(chunk, self._plan.copy(after, until)), until)

    def _write(self, chunk: int, query: str) -> tuple[CopiedFile, ...]:
        """Writes what COPY gives into files, each of which begins with the names of the columns."""
        from psycopg import pq  # an optional package

        connection = self._server.pgconn
        if connection.exec_(query.encode()).status != pq.ExecStatus.COPY_OUT:
            raise PostgresError(connection.error_message.decode(errors="replace").strip())
        lines = iter(partial(_line, connection), None)
        header = next(lines, b"")
        most = -(-self._plan.rows // self._plan.files)
        files: list[CopiedFile] = []
        while (first := next(lines, None)) is not None:
            name = f"rows-{chunk}-{len(files)}.csv"
            longest = len(header)
            with (self._folder / f".{name}").open("wb") as file:
                file.write(header)
                rest = chain([first], islice(lines, most - 1))
                while some := list(islice(rest, _WRITTEN_AT_ONCE)):
                    file.write(b"".join(some))
                    longest = max(longest, *map(len, some))
                file.flush()
                os.fsync(file.fileno())
            (self._folder / f".{name}").replace(self._folder / name)
            files.append(CopiedFile(name, longest))
        while (result := connection.get_result()) is not None:
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise PostgresError(result.error_message.decode(errors="replace").strip())
        return tuple(files)

    def close(self) -> None:
        """Ends the snapshot."""
        self._worker.shutdown()
        self._server.close()


def _line(connection: PGconn) -> bytes | None:
    """The next row of a COPY; None behind the last one."""
    size, line = connection.get_copy_data(0)
    return bytes(line) if size > 0 else None
