"""Messages of ``pgoutput``, PostgreSQL's own plugin for logical replication, as columns of texts.

A message is one row that was inserted, updated or deleted, or says something of those that follow: which transaction
they are of, and which columns their table has. Thousands of messages are read at a time, column by column: the reader
has the position of each message and reads the next value of all of them in one step.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro_cursor import slices

BEGIN, COMMIT, RELATION, INSERT, UPDATE, DELETE, TRUNCATE = b"BCRIUDT"
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = b"SEcA"
KEY_ONLY, OLD_ROW, NEW_ROW = b"KON"
NULL, UNCHANGED, TEXT = b"nut"

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""From which PostgreSQL counts microseconds."""

IDENTITY_FULL, IDENTITY_NOTHING = "f", "n"


@dataclass(frozen=True)
class RelationColumn:
    """A column as the log has it. ``type``: the number (OID) of its type. ``is_key``: it is of the replica identity."""

    name: str
    type: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """A table as it was when the rows that follow were written."""

    number: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @staticmethod
    def of(message: bytes) -> Relation:
        """Reads a message of the kind RELATION."""
        number = int.from_bytes(message[1:5], "big")
        schema, at = _text(message, 5)
        name, at = _text(message, at)
        identity, count = chr(message[at]), int.from_bytes(message[at + 1 : at + 3], "big")
        columns, at = [], at + 3
        for _ in range(count):
            is_key = bool(message[at] & 1)
            column, at = _text(message, at + 1)
            columns.append(RelationColumn(column, int.from_bytes(message[at : at + 4], "big"), is_key))
            at += 8
        return Relation(number, schema, name, identity, tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


@dataclass(frozen=True)
class Commit:
    """The end of a transaction in the log. ``at``: where its record begins; ``end``: where the next one may begin."""

    at: int
    end: int

    @staticmethod
    def of(message: bytes) -> Commit:
        """Reads a message of the kind COMMIT."""
        return Commit(int.from_bytes(message[2:10], "big"), int.from_bytes(message[10:18], "big"))


@dataclass(frozen=True)
class StreamCommit:
    """The end of a transaction that was sent while it was running. ``time``: in microseconds since 2000."""

    transaction: int
    at: int
    end: int
    time: int

    @staticmethod
    def of(message: bytes) -> StreamCommit:
        """Reads a message of the kind STREAM_COMMIT."""
        numbers = (int.from_bytes(message[begin : begin + 8], "big") for begin in (6, 14, 22))
        return StreamCommit(int.from_bytes(message[1:5], "big"), *numbers)


def begin_message(transaction: int, at: int = 0, time: int = 0) -> bytes:
    """The message BEGIN of a transaction, which the server leaves out where it sends one while it is running."""
    return bytes([BEGIN]) + at.to_bytes(8, "big") + time.to_bytes(8, "big") + transaction.to_bytes(4, "big")


def without_owner(message: bytes) -> tuple[int, bytes]:
    """Returns of a message of a running transaction which (sub-)transaction it is of, and the message as it is in
    others.
    """
    return int.from_bytes(message[1:5], "big"), message[:1] + message[5:]


def truncated(message: bytes) -> list[int]:
    """Returns the numbers of the tables that a message of the kind TRUNCATE empties."""
    count = int.from_bytes(message[1:5], "big")
    return [int.from_bytes(message[6 + 4 * n : 10 + 4 * n], "big") for n in range(count)]


@dataclass(frozen=True)
class Snapshot:
    """Which transactions a snapshot sees: those before ``next`` but for ``running``, as pg_current_snapshot() says."""

    oldest: int
    next: int
    running: tuple[int, ...] = ()

    @staticmethod
    def of(text: str) -> Snapshot:
        oldest, following, running = text.split(":")
        return Snapshot(int(oldest), int(following), tuple(int(x) for x in running.split(",") if x))

    def sees(self, transactions: np.ndarray) -> np.ndarray:
        """True for each transaction that the snapshot sees. ``transactions``: the lower 32 bits of their numbers, as
        the log has them: each stands for the number that is next to those of the snapshot.
        """
        ahead = (transactions.astype(np.int64) - self.next) & 0xFFFFFFFF
        numbers = self.next + np.where(ahead >= 1 << 31, ahead - (1 << 32), ahead)
        seen: np.ndarray = (numbers < self.next) & ~np.isin(numbers, np.array(self.running, np.int64))
        return seen


# --- many messages --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Messages:
    """Messages that follow each other in ``data``, each from its position in ``starts`` on."""

    data: np.ndarray
    starts: np.ndarray

    @property
    def kinds(self) -> np.ndarray:
        kinds: np.ndarray = self.data[self.starts]
        return kinds

    def numbers(self, at: np.ndarray, width: int) -> np.ndarray:
        """The unsigned numbers of ``width`` bytes at these positions."""
        if len(self.data) < width:
            return np.zeros(0, np.int64)
        at_each_byte = np.ndarray((len(self.data) - width + 1,), f">u{width}", self.data, strides=(1,))
        numbers: np.ndarray = at_each_byte[at].astype(np.int64)
        return numbers


@dataclass(frozen=True)
class TextColumn:
    """One column of some rows: where the text of each value is in the data, and what kind of value it is."""

    starts: np.ndarray
    lengths: np.ndarray
    kinds: np.ndarray

    def filled(self, others: TextColumn, rows: np.ndarray) -> TextColumn:
        """The column with those values of ``others`` that did not change. ``rows``: the row of ``others`` for each
        row, -1 for none.
        """
        lacking = np.flatnonzero((self.kinds == UNCHANGED) & (rows >= 0))
        if not len(lacking):
            return self
        starts, lengths, kinds = self.starts.copy(), self.lengths.copy(), self.kinds.copy()
        from_rows = rows[lacking]
        starts[lacking], lengths[lacking] = others.starts[from_rows], others.lengths[from_rows]
        kinds[lacking] = others.kinds[from_rows]
        return TextColumn(starts, lengths, kinds)

    def texts(self, data: np.ndarray) -> pa.StringArray:
        """The values as texts, NULL where there is none."""
        found = slices(data, self.starts, self.starts + self.lengths).cast(pa.string())
        if (self.kinds == TEXT).all():
            return found
        return pc.if_else(pa.array(self.kinds == TEXT), found, None)


def tuples(messages: Messages, at: np.ndarray, count: int) -> tuple[list[TextColumn], np.ndarray]:
    """Reads rows of ``count`` columns that begin at these positions. Returns their columns and where the rows end."""
    data, at = messages.data, at + 2
    columns = []
    for _ in range(count):
        kinds = data[at]
        lengths = np.zeros(len(at), np.int64)
        texts = np.flatnonzero(kinds == TEXT)
        lengths[texts] = messages.numbers(at[texts] + 1, 4)
        starts = at + 1
        starts[texts] += 4
        columns.append(TextColumn(starts, lengths, kinds))
        at = starts + lengths
    return columns, at


@dataclass(frozen=True)
class RowChanges:
    """The changes of rows of one table, in the order of the log.

    * ``kinds``: INSERT, UPDATE or DELETE of each; ``messages``: the index of its message.
    * ``new``, ``old``: the columns of the rows after and before; ``new_rows``, ``old_rows``: for each change its row in
      them, -1 where it has none.
    * ``whole``: for each change, whether its old row has all columns and not only those of the key.
    """

    kinds: np.ndarray
    messages: np.ndarray
    new: list[TextColumn]
    new_rows: np.ndarray
    old: list[TextColumn]
    old_rows: np.ndarray
    whole: np.ndarray


def changes_of(messages: Messages, relations: Sequence[Relation]) -> RowChanges:
    """Returns the changes of rows of a table, or of partitions, among the messages. All of ``relations`` must have the
    same columns, and all rows these.
    """
    kinds, starts = messages.kinds, messages.starts
    of_rows = np.flatnonzero((kinds == INSERT) | (kinds == UPDATE) | (kinds == DELETE))
    of_rows = of_rows[np.isin(messages.numbers(starts[of_rows] + 1, 4), [r.number for r in relations])]
    kinds, starts = kinds[of_rows], starts[of_rows]
    tags = messages.data[starts + 5]
    has_old, has_new = tags != NEW_ROW, kinds != DELETE
    count = len(relations[0].columns)
    old, ends = tuples(messages, starts[has_old] + 6, count)
    begins = starts + 6
    begins[has_old] = ends + 1  # behind the old row is the mark of the new one
    new, _ = tuples(messages, begins[has_new], count)
    old_rows = np.where(has_old, np.cumsum(has_old) - 1, -1)
    new_rows = np.where(has_new, np.cumsum(has_new) - 1, -1)
    old_of_new = old_rows[has_new]
    whole = tags == OLD_ROW
    of_whole = np.where(whole[has_new], old_of_new, -1)
    new = [
        values.filled(others, old_of_new if column.is_key else of_whole)
        for column, values, others in zip(relations[0].columns, new, old, strict=True)
    ]
    return RowChanges(kinds, of_rows, new, new_rows, old, old_rows, whole)


@dataclass(frozen=True)
class Transactions:
    """The transaction of each message: the lower 32 bits of its number, and when it was committed, in microseconds
    since 2000. ``last``: those of the last message.
    """

    numbers: np.ndarray
    times: np.ndarray

    @property
    def last(self) -> tuple[int, int]:
        return int(self.numbers[-1]), int(self.times[-1])


def transactions_of(messages: Messages, before: tuple[int, int]) -> Transactions:
    """Returns the transaction of each message. ``before``: number and time of the one that the first message is of."""
    begins = np.flatnonzero(messages.kinds == BEGIN)
    at = messages.starts[begins]
    numbers = np.concatenate(([before[0]], messages.numbers(at + 17, 4)))
    times = np.concatenate(([before[1]], messages.numbers(at + 9, 8)))
    which = np.zeros(len(messages.starts), np.int64)
    which[begins] = 1
    which = np.cumsum(which)
    return Transactions(numbers[which], times[which])
