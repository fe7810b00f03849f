"""The log of PostgreSQL, as the server sends it to who asks for a replication slot.

psycopg has no protocol of replication, but libpq has all that it needs, and psycopg passes libpq on. The driver
receives the messages as they are into files, whole transactions at a time; tasks read them there. A connection that
lasts lets the server decode each change once. Large transactions are sent while they run, in parts (version 2 of the
protocol), so that the server need not store them until they are committed. The function
pg_logical_slot_peek_binary_changes, the other way, decodes from where the oldest running transaction began each time
that it is called, and says of a quiet table nothing but that the log has grown.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlstream.connectors.changes.received_log import LOGGED, Incoming, ReceivedLog
from sqlstream.connectors.changes.spools import Spool
from sqlstream.errors import ConnectorError
from sqlstream.formats.pgoutput import (
    BEGIN,
    COMMIT,
    DELETE,
    EPOCH,
    INSERT,
    RELATION,
    STREAM_ABORT,
    STREAM_COMMIT,
    STREAM_START,
    STREAM_STOP,
    TRUNCATE,
    UPDATE,
    Commit,
    Relation,
    StreamCommit,
    begin_message,
    truncated,
    without_owner,
)
from sqlstream.udfs.database_changes import CHANGED_TABLE, lsn_text
from sqlstream.udfs.lookup.sources.postgres import PostgresError

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

SLOT_IN_USE = "SS627"

_DATA, _KEEPALIVE = b"wk"
_OF_STREAMS = frozenset({STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT})
_OF_TABLES = frozenset({RELATION, INSERT, UPDATE, DELETE, TRUNCATE})
_HEADER = 25
_STATUS_SECONDS = 5.0
_IN_USE = "55006"


class LogError(PostgresError):
    """The server refused or ended the replication."""

    def __init__(self, message: str, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


def replication(connection: Mapping[str, str]) -> PGconn:
    """Opens a connection that speaks the protocol of replication. LogError where the server does not let it."""
    from psycopg import pq  # an optional package
    from psycopg.conninfo import make_conninfo

    opened = pq.PGconn.connect(make_conninfo("", **connection, replication="database").encode())
    if opened.status != pq.ConnStatus.OK:
        reason = opened.error_message.decode(errors="replace").strip()
        opened.finish()
        raise LogError(reason)
    return opened


def system_of(connection: PGconn) -> str:
    """Which server this is: a number that it shares with its replicas alone."""
    result = connection.exec_(b"IDENTIFY_SYSTEM")
    value = result.get_value(0, 0)
    if value is None:
        raise LogError(result.error_message.decode(errors="replace").strip())
    return value.decode()


@dataclass(frozen=True)
class TableInLog:
    """The table that is read, as messages name it. ``number``: its own (OID), whatever its name was; ``is_partition``:
    says of the number of another whether that is one of its partitions.
    """

    schema: str
    name: str
    number: int
    is_partition: Callable[[int], bool]

    def has(self, relation: Relation) -> bool:
        """True for what is the table, or a partition of it. ConnectorError SS622 for another table of its name."""
        if relation.number == self.number or self.is_partition(relation.number):
            return True
        if (relation.schema, relation.name) == (self.schema, self.name):
            raise replaced(f"{self.schema}.{self.name}")
        return False


def replaced(shown: str) -> ConnectorError:
    """SS622 for a table that is not the one that has its name."""
    message = f'table "{shown}" was dropped, renamed or replaced: the log has another one of its name'
    hint = "Start in a new directory and with a new slot, with the rows of the table as they are now."
    return ConnectorError(CHANGED_TABLE, message, hint=hint)


class LogReceiver(ReceivedLog):
    """Receives the log of a slot.

    ``publication`` says which changes; ``table``: the one that is read. The server may forget what was confirmed
    (``confirm``).
    """

    def __init__(
        self,
        connection: Mapping[str, str],
        slot: str,
        publication: str,
        table: TableInLog,
        since: int,
        folder: Path,
    ) -> None:
        super().__init__(since, folder)
        self._table = table
        self._read: dict[int, bool] = {}
        self._running: dict[int, Spool] = {}
        self._sent: Spool | None = None
        self._connection = replication(connection)
        self.system = system_of(self._connection)
        self._confirmed = 0
        self._reported = time.monotonic()
        try:
            self._start(slot, publication)
        except BaseException:
            self._connection.finish()
            raise
        self.start_receiving(f"log of slot {slot}")

    def _start(self, slot: str, publication: str) -> None:
        from psycopg import pq  # an optional package

        name = publication.replace('"', '""').replace("'", "''")
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(self.since)} '
            f"(proto_version '2', streaming 'on', publication_names '\"{name}\"')"
        )
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
            raise LogError(message.decode(errors="replace").strip(), (state or b"").decode())

    def confirm(self, lsn: int) -> None:
        """Says that what was committed before this place is never asked for again."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._asks.set()

    # --- the thread -------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        select.select([self._connection.socket], [], [], 0.02)
        self._connection.consume_input()

    def _close(self) -> None:
        self._connection.finish()
        for spool in self._running.values():
            spool.discard()

    def _receive(self, incoming: Incoming) -> bool:
        read = self._connection.get_copy_data
        size = 1
        while size > 0 and not incoming.full:
            size, data = read(1)
            if size == 0:  # libpq's buffer is empty
                self._connection.consume_input()
                size, data = read(1)
            if size > 0:
                self._heed(incoming, data)
        if size < 0:
            self._ended()
        return size > 0

    def _heed(self, incoming: Incoming, data: memoryview) -> None:
        if data[0] == _KEEPALIVE:
            incoming.reach(int.from_bytes(data[1:9], "big"))
            if data[17]:
                self._asks.set()
            return
        payload = bytes(data[_HEADER:])
        what = payload[0]
        if what in _OF_STREAMS:
            self._heed_running(incoming, what, payload)
        elif self._sent is not None:
            if what in _OF_TABLES:
                owner, message = without_owner(payload)
                if self._is_read(what, message):
                    number = int.from_bytes(message[1:5], "big")
                    self._sent.add(owner, message, number if what == RELATION else None)
            incoming.apart += 1
        else:
            self._heed_complete(incoming, what, payload)

    def _heed_complete(self, incoming: Incoming, what: int, payload: bytes) -> None:
        """A message of a transaction that is sent when it is committed."""
        if what == BEGIN:
            incoming.begin()
            incoming.add(payload)
        elif what == COMMIT:
            commit = Commit.of(payload)
            incoming.add(payload)
            incoming.commit(commit.at, commit.end)
        elif what in _OF_TABLES and self._is_read(what, payload):
            if what == RELATION:
                incoming.describe(payload, int.from_bytes(payload[1:5], "big"))
            else:
                incoming.add(payload)

    def _heed_running(self, incoming: Incoming, what: int, payload: bytes) -> None:
        """Where a part of a running transaction begins or ends, or the transaction."""
        number = int.from_bytes(payload[1:5], "big")
        if what == STREAM_START:
            if number not in self._running:
                self._running[number] = Spool(self._folder / f"{LOGGED}{uuid4().hex}", begin_message(number))
            self._sent = self._running[number]
        elif what == STREAM_STOP:
            self._sent = None
        elif what == STREAM_COMMIT:
            commit, spool = StreamCommit.of(payload), self._running.pop(number)
            spool.commit(begin_message(number, commit.at, commit.time))
            incoming.commit_apart(commit.at, commit.end, spool)
        elif (undone := int.from_bytes(payload[5:9], "big")) != number:
            self._running[number].undo(undone)
        else:
            self._running.pop(number).discard()

    def _is_read(self, what: int, message: bytes) -> bool:
        """True where a message is of the table or of a partition of it."""
        if what == TRUNCATE:
            return any(self._read.get(number, False) for number in truncated(message))
        number = int.from_bytes(message[1:5], "big")
        if what == RELATION:
            self._read[number] = self._read.get(number) or self._table.has(Relation.of(message))
        return self._read.get(number, False)

    def _ended(self) -> None:
        from psycopg import pq  # an optional package

        result = self._connection.get_result()
        reason = (result.error_message if result is not None else b"") or self._connection.error_message
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) if result is not None else None) or b""
        message = reason.decode(errors="replace").strip() or "the server has ended the replication"
        raise LogError(message, state.decode())

    def _report(self, *, asks: bool) -> None:
        """Sends the status: what was received, and what was confirmed."""
        now = time.monotonic()
        if not asks and now - self._reported <= _STATUS_SECONDS and not self._stopped.is_set():
            return
        self._reported = now
        micros = int((time.time() - EPOCH.timestamp()) * 1_000_000)
        confirmed = self._confirmed
        message = struct.pack(">cQQQQB", b"r", max(self._reached, confirmed), confirmed, confirmed, micros, asks)
        self._connection.put_copy_data(message)
        self._connection.flush()


def receiver(open_receiver: Callable[[], LogReceiver], slot: str, seconds: float) -> LogReceiver:
    """Opens a receiver. Waits for so many seconds while another connection has the slot, because that of a process
    that was killed lasts until the server notices. ConnectorError SS627 if it still has it.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return open_receiver()
        except LogError as error:
            if error.sqlstate != _IN_USE:
                raise
            if time.monotonic() > end:
                message = f'slot "{slot}" is in use: {error}'
                hint = "Stop the other job, or give each table and each job a slot of its own ('slot.name')."
                raise ConnectorError(SLOT_IN_USE, message, hint=hint) from None
        time.sleep(0.5)
