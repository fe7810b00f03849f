"""Transactions of a server's log, received into files until micro-batches read them.

The driver receives messages as they are, in a thread of its own, whole transactions at a time; tasks read them in the
files. What is received waits in memory only as the places of transactions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, Thread
from typing import IO
from uuid import uuid4

from sqlstream.connectors.changes.spools import Spool
from sqlstream.udfs.database_changes import INDEX

LOGGED = "log-"
"""The names of all files of a log begin with it."""

_AT_ONCE = 5_000
_FILE_BYTES = 64 << 20
_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class Segment:
    """Messages of a file: from number ``first``, at byte ``begin``, to before ``until``. ``relations``: the messages
    that describe the table, or its partitions, where they begin.
    """

    path: str
    begin: int
    first: int
    until: int
    relations: tuple[bytes, ...]


@dataclass(frozen=True)
class Taken:
    """What a micro-batch reads of the log: whole transactions up to ``end``. ``gtids``: how other servers call what is
    before that, where they have a name for it.
    """

    end: int
    segments: tuple[Segment, ...] = ()
    gtids: str = ""


@dataclass(frozen=True)
class _Transaction:
    """``at``: where it was committed; ``end``: the place behind it. ``relations``: the last messages of it that
    describe the table or a partition, by its number.
    """

    at: int
    end: int
    path: str
    begin: int
    first: int
    until: int
    size: int
    relations: Mapping[int, bytes]
    gtids: str = ""


@dataclass
class Incoming:
    """Messages that are received at a time.

    * ``at`` and ``number``: where the next one is in the file; ``begun``: where the transaction begins that is being
      received, if one ``is_open``; ``done``: those that are complete.
    * ``reached``: what was committed before it has been received; None if nothing is known. ``gtids``: how other
      servers call that.
    * ``apart``: how many messages were written to files of their transactions.
    """

    path: str
    at: int
    number: int
    begun: tuple[int, int]
    relations: dict[int, bytes]
    is_open: bool
    payloads: list[bytes] = field(default_factory=list)
    lengths: array[int] = field(default_factory=lambda: array("I"))
    done: list[_Transaction] = field(default_factory=list)
    reached: int | None = None
    gtids: str = ""
    apart: int = 0

    @property
    def full(self) -> bool:
        """True where so much has come that it should be stored."""
        return len(self.lengths) + self.apart >= _AT_ONCE or (bool(self.done) and self.at > _FILE_BYTES)

    def begin(self) -> None:
        """Says that the next message is the first of a transaction."""
        self.begun, self.relations, self.is_open = (self.at, self.number), {}, True

    def describe(self, payload: bytes, number: int = 0) -> None:
        """Adds a message that describes the table, or the partition of this number."""
        self.relations[number] = payload
        self.add(payload)

    def add(self, payload: bytes) -> None:
        self.payloads.append(payload)
        self.lengths.append(len(payload))
        self.at += len(payload)
        self.number += 1

    def commit(self, at: int, end: int, gtids: str = "") -> None:
        """Says that the last message was the last of a transaction."""
        begin, first = self.begun
        place = self.path, begin, first, self.number, self.at - begin
        self.done.append(_Transaction(at, end, *place, self.relations, gtids))
        self.reached, self.gtids, self.is_open = end, gtids, False

    def commit_apart(self, at: int, end: int, spool: Spool) -> None:
        """Says that a transaction is complete whose messages have a file of their own."""
        self.done.append(_Transaction(at, end, str(spool.path), 0, 0, spool.count, spool.size, spool.relations))
        self.reached = end

    def reach(self, place: int, gtids: str = "") -> None:
        """Says that what was committed before this place has been received."""
        if place >= (self.reached or 0):
            self.reached, self.gtids = place, gtids


class ReceivedLog(ABC):
    """Receives a log from ``since`` on into files of ``folder``, after ``start_receiving``. ``gtids``: how other
    servers call what is before ``since``. ``system``: which server it is of, as that says itself.

    Transactions are given out by ``take``. While more than some megabytes of them wait for it, nothing more is
    received.
    """

    system: str

    def __init__(self, since: int, folder: Path, gtids: str = "") -> None:
        self._folder = folder
        self._transactions: deque[_Transaction] = deque()
        self._waiting_bytes = self._waiting_messages = 0
        self._changed = Condition()
        self._stopped, self._asks = Event(), Event()
        self.error: Exception | None = None
        self.since = since
        self._reached, self._gtids_reached = since, gtids
        self._gtids_since = gtids
        self._relations: dict[int, bytes] = {}
        self._files: list[str] = []
        self._content: IO[bytes] | None = None
        self._index: IO[bytes] | None = None
        self._bytes = self._messages = 0
        self._begun: tuple[int, int] = (0, 0)
        self._described: dict[int, bytes] = {}
        self._is_open = False

    def start_receiving(self, name: str) -> None:
        """Starts the thread, of this name."""
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # --- what a server says -----------------------------------------------------------------------------------

    @abstractmethod
    def _receive(self, incoming: Incoming) -> bool:
        """Receives what is there until ``incoming`` is full. True if there may be more. Raises what ends the log."""

    @abstractmethod
    def _rest(self) -> None:
        """Waits a moment for more."""

    @abstractmethod
    def _report(self, *, asks: bool) -> None:
        """Called again and again: tells the server what was received. ``asks``: its answer is wanted soon."""

    @abstractmethod
    def _close(self) -> None:
        """Ends the connection."""

    @abstractmethod
    def confirm(self, place: int) -> None:
        """Says that what was committed before this place is never asked for again."""

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

    def has_enough(self, most: int, end: int) -> bool:
        """True where ``take`` of these has as much as it may ever have: all up to ``end``, ``most`` messages, or as
        much as is received ahead.
        """
        is_much = self._waiting_messages >= most or self._waiting_bytes >= _AHEAD_BYTES
        return self._reached >= end or is_much or (self.error is not None and self.has_transactions())

    def skip(self) -> Taken:
        """Returns the place of the log up to which there is nothing for ``take``, which goes on there."""
        with self._changed:
            if not self._transactions and self._reached > self.since:
                self.since, self._gtids_since = self._reached, self._gtids_reached
            return Taken(self.since, gtids=self._gtids_since)

    def skip_to(self, end: int, gtids: str) -> None:
        """Says that there is nothing for ``take`` up to ``end``, where it goes on."""
        with self._changed:
            if end >= self.since:
                self.since, self._gtids_since = end, gtids

    def take(self, most: int | None, end: int | None = None) -> Taken | None:
        """Gives out transactions that were received: about ``most`` messages, of those that were committed before
        ``end``. None if there are none. The place that follows is ``end`` only where none before it is still to be
        received.
        """
        segments: list[Segment] = []
        place, gtids, count = self.since, self._gtids_since, 0
        with self._changed:
            if self.error is not None and not self._transactions:
                raise self.error
            all_taken = self._reached >= end if end is not None else False
            while self._transactions:
                transaction = self._transactions[0]
                if end is not None and not transaction.at < end:
                    all_taken = True
                    break
                if segments and most is not None and count + transaction.until - transaction.first > most:
                    all_taken = False
                    break
                self._transactions.popleft()
                self._waiting_bytes -= transaction.size
                self._waiting_messages -= transaction.until - transaction.first
                count += transaction.until - transaction.first
                place, gtids = transaction.end, transaction.gtids
                last = segments[-1] if segments else None
                if last is not None and last.path == transaction.path and last.until == transaction.first:
                    segments[-1] = Segment(last.path, last.begin, last.first, transaction.until, last.relations)
                else:
                    messages = transaction.begin, transaction.first, transaction.until
                    segments.append(Segment(transaction.path, *messages, tuple(self._relations.values())))
                self._relations |= transaction.relations
        if not segments:
            return None
        self.since, self._gtids_since = end if end is not None and all_taken else place, gtids
        return Taken(self.since, tuple(segments), gtids)

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
        """Ends the receiving, and removes its files. The server learns how far it was."""
        self._stopped.set()
        self._thread.join(30)
        for path in self._files:
            Path(path).unlink(missing_ok=True)
            Path(path + INDEX).unlink(missing_ok=True)

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                received = self._waiting_bytes < _AHEAD_BYTES and self._received_some()
                if asks := self._asks.is_set():
                    self._asks.clear()
                self._report(asks=asks)
                if received:
                    continue
                if self._waiting_bytes >= _AHEAD_BYTES:
                    time.sleep(0.01)
                else:
                    self._rest()
            self._report(asks=False)
        except Exception as error:  # for who takes transactions
            with self._changed:
                self.error = error
                self._changed.notify_all()
        finally:
            self._close()
            for file in (self._content, self._index):
                if file is not None:
                    file.close()

    def _received_some(self) -> bool:
        path = self._file()
        incoming = Incoming(path, self._bytes, self._messages, self._begun, self._described, self._is_open)
        more = self._receive(incoming)
        self._store(incoming)
        self._begun, self._described, self._is_open = incoming.begun, incoming.relations, incoming.is_open
        with self._changed:
            self._bytes, self._messages = incoming.at, incoming.number
            self._files[:0] = [t.path for t in incoming.done if t.path != path]
            new = [t for t in incoming.done if not t.at < self.since]
            self._transactions.extend(new)
            self._waiting_bytes += sum(t.size for t in new)
            self._waiting_messages += sum(t.until - t.first for t in new)
            if incoming.reached is not None and incoming.reached > self._reached:
                self._reached, self._gtids_reached = incoming.reached, incoming.gtids
            self._changed.notify_all()
        if incoming.at > _FILE_BYTES and not incoming.is_open:
            self._next_file()
        return more

    def _file(self) -> str:
        if self._content is None:
            path = self._folder / f"{LOGGED}{uuid4().hex}"
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

    def _store(self, incoming: Incoming) -> None:
        if not incoming.payloads:
            return
        assert self._content is not None
        assert self._index is not None
        self._content.write(b"".join(incoming.payloads))
        self._index.write(incoming.lengths.tobytes())
        self._content.flush()
        self._index.flush()
