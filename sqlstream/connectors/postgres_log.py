"""The log of PostgreSQL, as the server sends it to who asks for a replication slot.

psycopg has no protocol of replication, but libpq has all that it needs, and psycopg passes libpq on. The driver
receives the messages as they are into files, whole transactions at a time; tasks read them there. A connection that
lasts lets the server decode each change once. The function pg_logical_slot_peek_binary_changes, the other way, decodes
from where the oldest running transaction began each time that it is called, and says of a quiet table nothing but that
the log has grown.
"""

from __future__ import annotations

import select
import struct
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, Thread
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from sqlstream.connectors.postgres_positions import lsn_text
from sqlstream.errors import ConnectorError
from sqlstream.formats.pgoutput import BEGIN, COMMIT, EPOCH, RELATION, Commit, Relation
from sqlstream.udfs.lookup.sources.postgres import PostgresError
from sqlstream.udfs.postgres_changes import INDEX

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

SLOT_IN_USE = "SS627"

_DATA, _KEEPALIVE = b"wk"
_HEADER = 25
_AT_ONCE = 5_000
_FILE_BYTES = 64 << 20
_AHEAD_BYTES = 64 << 20
_STATUS_SECONDS = 5.0
_IN_USE = "55006"


class LogError(PostgresError):
    """The server refused or ended the replication."""

    def __init__(self, message: str, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


@dataclass(frozen=True)
class Segment:
    """Messages of a file: from number ``first``, at byte ``begin``, to before ``until``. ``relation``: the message that
    describes the table where they begin; None if none has come yet.
    """

    path: str
    begin: int
    first: int
    until: int
    relation: bytes | None


@dataclass(frozen=True)
class Taken:
    """What a micro-batch reads of the log: whole transactions up to ``end``."""

    end: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class _Transaction:
    commit: Commit
    path: str
    begin: int
    first: int
    until: int
    size: int
    relation: bytes | None


@dataclass
class _Come:
    """Messages that were received at a time. ``at`` and ``number``: where the next one is in the file; ``begun``: where
    the transaction begins that is being received; ``done``: those that are complete.
    """

    path: str
    at: int
    number: int
    begun: tuple[int, int]
    payloads: list[bytes] = field(default_factory=list)
    lengths: array[int] = field(default_factory=lambda: array("I"))
    done: list[_Transaction] = field(default_factory=list)
    reached: int = 0


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


class LogReceiver:
    """Receives the log of a slot from ``since`` on, in a thread of its own, into files of ``folder``.

    ``publication`` says which changes; ``table``: schema and name of the one whose relation is remembered. Transactions
    are given out by ``take``; while more than some megabytes of them wait for it, nothing more is received. The server
    may forget what was confirmed (``confirm``).
    """

    def __init__(
        self,
        connection: Mapping[str, str],
        slot: str,
        publication: str,
        table: tuple[str, str],
        since: int,
        folder: Path,
    ) -> None:
        self._table, self._folder = table, folder
        self._connection = replication(connection)
        self.system = system_of(self._connection)
        self._transactions: deque[_Transaction] = deque()
        self._waiting_bytes = 0
        self._changed = Condition()
        self._stopped, self._asks = Event(), Event()
        self.error: Exception | None = None
        self.since = since
        self._reached = since
        self._confirmed = self._sent = 0
        self._relation: bytes | None = None
        self._files: list[str] = []
        self._content: IO[bytes] | None = None
        self._index: IO[bytes] | None = None
        self._bytes = self._messages = 0
        try:
            self._start(slot, publication)
        except BaseException:
            self._connection.finish()
            raise
        self._thread = Thread(target=self._run, name=f"log of slot {slot}", daemon=True)
        self._thread.start()

    def _start(self, slot: str, publication: str) -> None:
        from psycopg import pq  # an optional package

        name = publication.replace('"', '""').replace("'", "''")
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(self.since)} '
            f"(proto_version '1', publication_names '\"{name}\"')"
        )
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
            raise LogError(message.decode(errors="replace").strip(), (state or b"").decode())

    # --- what the driver asks ---------------------------------------------------------------------------------

    @property
    def reached(self) -> int:
        """All transactions that were committed before this place of the log have been received."""
        with self._changed:
            return self._reached

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Waits until a condition holds that what is received can change; the server is asked how far it is. Raises
        the error that has ended the receiving.
        """
        end = time.monotonic() + seconds
        while True:
            with self._changed:
                if until():
                    return True
                if self.error is not None:
                    raise self.error
                if time.monotonic() > end:
                    return False
                self._asks.set()
                self._changed.wait(0.05)

    def has_transactions(self) -> bool:
        """True where some wait for ``take``."""
        return bool(self._transactions)

    def skip(self, end: int | None = None) -> int:
        """Returns the place of the log, or ``end``, up to which there is nothing for ``take``, which goes on there."""
        with self._changed:
            if end is not None or not self._transactions:
                self.since = max(self.since, self._reached if end is None else end)
            return self.since

    def take(self, most: int | None, end: int | None = None) -> Taken | None:
        """Gives out transactions that were received: about ``most`` messages, of those that were committed before
        ``end``. None if there are none.
        """
        segments: list[Segment] = []
        reached = count = 0
        all_taken = True
        with self._changed:
            if self.error is not None and not self._transactions:
                raise self.error
            while self._transactions:
                transaction = self._transactions[0]
                if end is not None and transaction.commit.at >= end:
                    break
                if segments and most is not None and count + transaction.until - transaction.first > most:
                    all_taken = False
                    break
                self._transactions.popleft()
                self._waiting_bytes -= transaction.size
                count += transaction.until - transaction.first
                reached = transaction.commit.end
                last = segments[-1] if segments else None
                if last is not None and last.path == transaction.path and last.until == transaction.first:
                    segments[-1] = Segment(last.path, last.begin, last.first, transaction.until, last.relation)
                else:
                    place = transaction.begin, transaction.first, transaction.until
                    segments.append(Segment(transaction.path, *place, self._relation))
                self._relation = transaction.relation or self._relation
        if not segments:
            return None
        self.since = end if end is not None and all_taken else reached
        return Taken(self.since, tuple(segments))

    def confirm(self, lsn: int) -> None:
        """Says that what was committed before this place is never asked for again."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._asks.set()

    def remove(self, needed: Iterable[str]) -> None:
        """Removes files of which everything was given out and that are not ``needed``."""
        with self._changed:
            kept = {*needed, *(t.path for t in self._transactions), *self._files[-1:]}
            gone = [path for path in self._files if path not in kept]
            self._files = [path for path in self._files if path in kept]
        for path in gone:
            Path(path).unlink(missing_ok=True)
            Path(path + INDEX).unlink(missing_ok=True)

    def stop(self) -> None:
        """Ends the receiving, and removes its files. The server learns what was confirmed."""
        self._stopped.set()
        self._thread.join(30)
        for path in self._files:
            Path(path).unlink(missing_ok=True)
            Path(path + INDEX).unlink(missing_ok=True)

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            last = time.monotonic()
            while not self._stopped.is_set():
                received = self._waiting_bytes < _AHEAD_BYTES and self._receive()
                now = time.monotonic()
                if self._asks.is_set() or now - last > _STATUS_SECONDS:
                    self._tell(asks=self._asks.is_set())
                    self._asks.clear()
                    last = now
                if not received:
                    self._rest()
            self._tell(asks=False)
        except Exception as error:  # for who takes transactions
            with self._changed:
                self.error = error
                self._changed.notify_all()
        finally:
            self._connection.finish()
            for file in (self._content, self._index):
                if file is not None:
                    file.close()

    def _rest(self) -> None:
        if self._waiting_bytes >= _AHEAD_BYTES:
            time.sleep(0.01)
            return
        select.select([self._connection.socket], [], [], 0.02)
        self._connection.consume_input()

    def _receive(self) -> bool:
        """Receives what is there, some thousand messages at most. True if there may be more."""
        read = self._connection.get_copy_data
        come = _Come(self._file(), self._bytes, self._messages, self._begun)
        size = 1
        while size > 0 and len(come.lengths) < _AT_ONCE and not (come.done and come.at > _FILE_BYTES):
            size, data = read(1)
            if size == 0:  # libpq's buffer is empty
                self._connection.consume_input()
                size, data = read(1)
            if size > 0:
                self._heed(come, data)
        if size < 0:
            self._ended()
        self._store(come)
        self._begun = come.begun
        with self._changed:
            self._bytes, self._messages = come.at, come.number
            new = [t for t in come.done if t.commit.at >= self.since]
            self._transactions.extend(new)
            self._waiting_bytes += sum(t.size for t in new)
            self._reached = max(self._reached, come.reached)
            self._changed.notify_all()
        if come.at > _FILE_BYTES and come.done and come.done[-1].until == come.number:
            self._next_file()
        return size > 0

    def _heed(self, come: _Come, data: memoryview) -> None:
        if data[0] == _KEEPALIVE:
            come.reached = max(come.reached, int.from_bytes(data[1:9], "big"))
            if data[17]:
                self._asks.set()
            return
        payload = bytes(data[_HEADER:])
        what = payload[0]
        if what == BEGIN:
            come.begun, self._told = (come.at, come.number), None
        come.payloads.append(payload)
        come.lengths.append(len(payload))
        come.at += len(payload)
        come.number += 1
        if what == COMMIT:
            commit = Commit.of(payload)
            begin, first = come.begun
            place = come.path, begin, first, come.number, come.at - begin
            come.done.append(_Transaction(commit, *place, self._told))
            come.reached = commit.end
        elif what == RELATION:
            relation = Relation.of(payload)
            if (relation.schema, relation.name) == self._table:
                self._told = payload

    _begun: tuple[int, int] = (0, 0)
    _told: bytes | None = None

    def _file(self) -> str:
        if self._content is None:
            path = self._folder / f"log-{uuid4().hex}"
            self._content = path.open("wb")
            self._index = Path(f"{path}{INDEX}").open("wb")  # noqa: SIM115 - until the next file
            self._bytes = self._messages = 0
            with self._changed:
                self._files.append(str(path))
        return self._files[-1]

    def _next_file(self) -> None:
        assert self._content is not None
        assert self._index is not None
        self._content.close()
        self._index.close()
        self._content = self._index = None

    def _store(self, come: _Come) -> None:
        if not come.payloads:
            return
        assert self._content is not None
        assert self._index is not None
        self._content.write(b"".join(come.payloads))
        self._index.write(come.lengths.tobytes())
        self._content.flush()
        self._index.flush()

    def _ended(self) -> None:
        result = self._connection.get_result()
        reason = (result.error_message if result is not None else b"") or self._connection.error_message
        raise LogError(reason.decode(errors="replace").strip() or "the server has ended the replication")

    def _tell(self, *, asks: bool) -> None:
        """Sends the status: what was received, and what was confirmed."""
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
