"""The rows that a table of MySQL or MariaDB has when a job begins, copied in parts by key into files of the checkpoint.

A part is in its file before the position that names it is written down, so that a micro-batch which is repeated reads
the same rows. Of each snapshot the place of the log is known up to which it holds all changes. MariaDB says it of a
snapshot; for MySQL the table is locked against writers for the moment in which the snapshot is made.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.changes.copies import Key, TableCopier
from sqlstream.connectors.changes.positions import CopiedFile
from sqlstream.connectors.mysql.server import log_end, place, quoted, reason_of, rows
from sqlstream.errors import ConnectorError
from sqlstream.paths import whole_file
from sqlstream.udfs.database_changes import INDEX, ChangedTable, KeyColumn, lsn_text
from sqlstream.udfs.mysql_changes import PACKET_HEAD, PACKETS
from sqlstream.udfs.mysql_connection import connected

if TYPE_CHECKING:
    from sqlstream.connectors.mysql.server import Connection

NOT_LOCKED = "SS631"

_LOCK_SECONDS = 30
_MOST_BYTES, _END, _ERROR = 0xFFFFFF, 0xFE, 0xFF
_LENGTH = Struct("<I")
"""Of a packet, with the number of the packet in the highest byte."""
_AT_ONCE = 256 << 10
_LOST = 2013

Block = tuple[bytes, "array[int]"]
"""Packets of rows, and how long each is with its head."""


@dataclass(frozen=True)
class CopyPlan:
    """How a table is copied. ``selected``: what a query gives of each column that is read. ``cut_by``: the key by which
    it is cut, none if it has none. ``rows``: of a part; ``files``: of a part.
    """

    table: ChangedTable
    selected: tuple[str, ...]
    cut_by: tuple[KeyColumn, ...]
    rows: int
    files: int

    @property
    def source(self) -> str:
        return quoted(self.table.schema, self.table.table)

    def bound(self, after: Sequence[str] | None) -> str:
        """The query of the key with which the part behind ``after`` ends; no row: it is the last part."""
        names = [quoted(key.name) for key in self.cut_by]
        texts = ", ".join(
            f"HEX({name})" if key.cast.startswith("UNHEX") else f"CAST({name} AS CHAR)"
            for key, name in zip(self.cut_by, names, strict=True)
        )
        return (
            f"SELECT {texts} FROM {self.source}{self._where(after, None)} ORDER BY {', '.join(names)} "
            f"LIMIT 1 OFFSET {self.rows - 1}"
        )

    def copy(self, after: Sequence[str] | None, until: Sequence[str] | None) -> str:
        listed = ", ".join(
            selected.format(quoted(column.stored))
            for selected, column in zip(self.selected, self.table.columns, strict=True)
        )
        return f"SELECT {listed or '1'} FROM {self.source}{self._where(after, until)}"

    def _where(self, after: Sequence[str] | None, until: Sequence[str] | None) -> str:
        conditions = []
        if after is not None:
            conditions.append(self._beyond(after, ">", last=">"))
        if until is not None:
            conditions.append(self._beyond(until, "<", last="<="))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _beyond(self, bound: Sequence[str], sign: str, *, last: str) -> str:
        """Keys that are before or behind a bound, in a form for which the server uses the index of the key."""
        literals = [key.cast.format(_literal(text)) for key, text in zip(self.cut_by, bound, strict=True)]
        names = [quoted(key.name) for key in self.cut_by]
        condition = f"{names[-1]} {last} {literals[-1]}"
        for name, literal in zip(names[-2::-1], literals[-2::-1], strict=True):
            condition = f"{name} {sign}= {literal} AND ({name} {sign} {literal} OR ({condition}))"
        return f"({condition})"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class MySqlCopier(TableCopier):
    """Copies the packets of a query, by a connection of its own."""

    def __init__(self, connection: Mapping[str, str], plan: CopyPlan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._server = connected(connection)
        try:
            unseen = _snapshot(self._server, connection, plan)
        except BaseException:
            self._server.close()
            raise
        super().__init__(lsn_text(unseen), unseen)

    def bound(self, after: Key | None) -> Key | None:
        if not self._plan.cut_by:
            return None
        found = rows(self._server, self._plan.bound(after))
        return tuple(map(_text, found[0])) if found else None

    def write(self, chunk: int, after: Key | None, until: Key | None) -> tuple[CopiedFile, ...]:
        """Files have the packets of rows as the server sends them; beside each is one with the lengths of these."""
        files: list[CopiedFile] = []
        with _blocks(self._server, self._plan.copy(after, until)) as blocks:
            while (first := next(blocks, None)) is not None:
                name, longest = f"{self.prefix}-{chunk}-{len(files)}{PACKETS}", 0
                with whole_file(self._folder / name) as content, whole_file(self._folder / f"{name}{INDEX}") as index:
                    for packets, lengths in _of_a_file(first, blocks, -(-self._plan.rows // self._plan.files)):
                        content.write(packets)
                        index.write(lengths.tobytes())
                        longest = max(longest, *lengths)
                files.append(CopiedFile(name, longest))
        return tuple(files)

    def disconnect(self) -> None:
        if self._server.open:
            self._server.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _of_a_file(first: Block, blocks: Iterator[Block], most: int) -> Iterator[Block]:
    """Blocks until there are ``most`` rows."""
    count = 0
    for block in chain([first], blocks):
        yield block
        count += len(block[1])
        if count >= most:
            return


@contextmanager
def _blocks(server: Connection, query: str) -> Iterator[Iterator[Block]]:
    """The rows of a query as the server sends them. Of a packet only the length is looked at: an object of PyMySQL for
    each would take longer than all else, not to speak of its values.
    """
    from pymysql.cursors import SSCursor  # an optional package

    with server.cursor(SSCursor) as cursor:
        cursor.execute(query)
        result = cursor._result
        try:
            yield _rows_of(_Received(server._rfile))
        finally:
            result.unbuffered_active, result.connection = False, None


def _rows_of(received: _Received) -> Iterator[Block]:
    import pymysql  # an optional package

    while True:
        block = received.rows()
        if block[1]:
            yield block
        packet = received.packet()
        if packet[0] == _END and len(packet) < 9:
            return
        if packet[0] == _ERROR:
            pymysql.err.raise_mysql_exception(packet)
        yield bytes(PACKET_HEAD) + packet, array("I", [PACKET_HEAD + len(packet)])


class _Received:
    """What a server sends, read from ``file``."""

    def __init__(self, file: Any) -> None:
        self._file, self._data, self._at = file, b"", 0

    def rows(self) -> Block:
        """The rows of which all has been read, up to one that needs a closer look."""
        data, at, lengths = self._data, self._at, array("I")
        last, length_at = len(data) - PACKET_HEAD, _LENGTH.unpack_from
        while at < last:
            size = length_at(data, at)[0] & _MOST_BYTES
            if at + size > last or size == _MOST_BYTES or data[at + PACKET_HEAD] >= _END:
                break
            size += PACKET_HEAD
            lengths.append(size)
            at += size
        begin, self._at = self._at, at
        return data[begin:at], lengths

    def packet(self) -> bytes:
        """The next packet, which may be in several parts."""
        parts: list[bytes] = []
        while not parts or len(parts[-1]) == _MOST_BYTES:
            while len(self._data) - self._at < PACKET_HEAD:
                self._append(self._file.read1(_AT_ONCE))
            size = int.from_bytes(self._data[self._at : self._at + 3], "little")
            begin = self._at = self._at + PACKET_HEAD
            if (missing := size - (len(self._data) - begin)) > 0:
                self._append(self._file.read(missing))
                begin = self._at
            if len(self._data) - begin < size:
                self._append(b"")
            parts.append(self._data[begin : begin + size])
            self._at += size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _append(self, more: bytes) -> None:
        import pymysql  # an optional package

        if not more:
            raise pymysql.OperationalError(_LOST, "Lost connection to the server while it sent rows")
        self._data, self._at = self._data[self._at :] + more, 0


# --- snapshots ------------------------------------------------------------------------------------------------


def _snapshot(server: Connection, connection: Mapping[str, str], plan: CopyPlan) -> int:
    """Begins a snapshot. Returns the place of the log of which it holds all that is before, and nothing behind."""
    rows(server, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if (there := _with_place(server)) is not None:
        return there
    rows(server, "ROLLBACK")
    import pymysql  # an optional package

    with connected(connection) as locking:
        try:
            rows(locking, f"SET lock_wait_timeout = {_LOCK_SECONDS}")
            rows(locking, f"LOCK TABLES {plan.source} READ")
        except pymysql.Error as error:
            message = f'table "{plan.table.shown}" cannot be locked for a moment: {reason_of(error)}'
            hint = "The user needs the privilege LOCK TABLES, and no transaction that writes the table may last long."
            raise ConnectorError(NOT_LOCKED, message, hint=hint) from None
        rows(server, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return log_end(server)


def _with_place(server: Connection) -> int | None:
    """Begins a snapshot. Returns its place, if the server says it."""
    rows(server, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    status = dict(rows(server, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    there = {name.lower(): value for name, value in status.items()}
    if not there.get("binlog_snapshot_file"):
        return None
    return place(there["binlog_snapshot_file"], int(there["binlog_snapshot_position"]))
