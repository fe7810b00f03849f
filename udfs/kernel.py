"""The contract between a stateful operator, the kernel, and whatever drives it.

A kernel is plain Python over Arrow tables and numpy. It runs for one key group at a time: its configuration is the
frozen instance, its state lives in the store of the context, and it knows no engine. All times inside kernels are int64
microseconds since 1970 (UTC): event times of rows, watermarks, timers, processing times.

The calls for one key group within a micro-batch, in this order:

1. ``on_held`` if it held the watermark in the previous micro-batch (``Context.hold``), with or without new rows
2. ``on_rows`` with rows that an operator below the exchange sent ahead of the new watermark (the old one still holds)
3. ``on_event_time`` when the new watermark reaches the earliest event-time timer
4. ``on_processing_time`` when the clock reaches the earliest processing-time timer
5. ``on_rows`` with all other rows, in order of arrival; their lateness is decided by the new watermark

At the end of each call the kernel sets its earliest timer of either domain (``set_timer``). What it emits up to and
including ``on_event_time`` reaches operators above before the watermark passes there.

A kernel with several inputs has as many *ports*. Its watermark is the minimum of theirs. Its rows arrive through
``on_ports`` in place of ``on_rows``: those of all ports at once, so that the changes that two inputs make to one result
in a micro-batch are emitted once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NO_WATERMARK = -(2**63)
"""The watermark before any row or control row."""

END_OF_TIME = 2**63 - 1
"""The watermark, and the processing time, at the end of a bounded input; as a timer: none."""

MOST_RESULTS = 2**18
"""The number of results that a kernel should hold at once: more are emitted in several tables."""

KEY_HASH = "__key_hash"
"""BIGINT column of every kernel's input: a 64-bit hash of the key columns. Its low bits determine the key group."""

EMITTED_AHEAD = "__ahead"
"""BOOLEAN column between chained operators: the row was emitted before the watermark of its batch passed."""

BARRIER = "__barrier"
"""BIGINT column between operators: a row in which nothing else is set marks the position at which the barrier with this
id was aligned. It is sent to all key groups of the operator that fires windows at barriers."""

ROW_KIND = "__row_kind"
"""STRING column of updating rows: +I, -U, +U or -D. Rows without the column are inserts. Operators say in the planner
whether they take other kinds (``Node.accepted_kinds``) and emit them (``Node.changelog_mode``)."""

LATE_ROWS = "late_rows"
"""The counter of rows that arrived after the watermark had passed them, and that no window or frame accepted."""

ROWS_TAKEN = "rows_taken"
"""The counter of rows that reached a kernel; after pre-aggregation, if it combines rows in the exchange."""

IGNORED = "ignored_deletions"
"""The counter of retractions without a stored row: it had expired, or was never inserted."""

StateKey = tuple[str, int]
"""The name of a part of the state, and a number within it: a pane, a bucket, a chunk."""


class Domain(Enum):
    """The clock that a timer or a window uses: event time, which the watermark advances, or processing time."""

    EVENT = "event"
    PROCESSING = "processing"


class Store(Protocol):
    """The state of one operator for one key group: a map from keys to bytes. Calls are expensive, so each reads or
    writes many keys.
    """

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        """The values of ``keys``, in their order; None for keys that do not exist."""
        ...

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        """Writes the entries. A value of None deletes the key."""
        ...


class Context(Protocol):
    """What a kernel can use during one call: it reads the clocks and the state of its key group, emits rows and sets
    timers.
    """

    @property
    def store(self) -> Store:
        """The state of the operator for the current key group."""
        ...

    @property
    def watermark(self) -> int:
        """The current watermark in microseconds: no more rows are expected up to this event time. NO_WATERMARK before
        the first one, END_OF_TIME at the end of the input.
        """
        ...

    @property
    def processing_time(self) -> int:
        """The last processing time, in microseconds, that is completely over: the clock's time less a millisecond.
        END_OF_TIME at the end of the input.
        """
        ...

    def emit(self, rows: pa.Table) -> None:
        """Emits rows of the kernel's ``output`` schema, in order."""
        ...

    def emit_folded(self, folded: pa.Table, results: int) -> None:
        """Emits ``results`` result rows in compact form, at this position of the output, for cases where they are far
        more than the rows from which they are computed. Downstream ``Kernel.unfold`` expands them part by part, so no
        process ever holds all of them.
        """
        ...

    def emit_late(self, rows: pa.Table) -> None:
        """Emits rows that are late for all their windows, in the kernel's ``late_output`` schema."""
        ...

    def count(self, metric: str, value: int) -> None:
        """Adds ``value`` to the operator's metric ``metric``, such as LATE_ROWS or IGNORED."""
        ...

    def set_timer(self, domain: Domain, time: int) -> None:
        """Sets the time, in microseconds on the clock ``domain``, at which the kernel must be called next. It replaces
        the previous timer; END_OF_TIME means none.
        """
        ...

    def hold(self, time: int, rows: int = 1) -> None:
        """Holds back the watermark of downstream operators below ``time`` (microseconds of event time), because of
        ``rows`` rows that are stored and not emitted yet.

        The last call in a micro-batch counts; without a call, or with END_OF_TIME, the watermark is not held. A row
        holds its own event time or, if the watermark had passed that when the row arrived, the moment after the
        watermark: so the watermark neither overtakes the row nor decreases. Only kernels that are ``deferring`` may
        hold.
        """
        ...


class Kernel(ABC):
    """A stateful operator. Its input has KEY_HASH and the columns that its configuration names. The module's
    documentation has the order of the calls.
    """

    @property
    @abstractmethod
    def output(self) -> pa.Schema:
        """The schema of the rows that the kernel emits."""
        ...

    @property
    def late_output(self) -> pa.Schema | None:
        """The schema of the rows that ``Context.emit_late`` gets; None if late rows are only counted."""
        return None

    @property
    def uses_processing_time(self) -> bool:
        """True if the kernel may set processing-time timers. The current processing time is then sent to all key
        groups, even to those without rows.
        """
        return False

    @property
    def ports(self) -> int:
        """The number of inputs."""
        return 1

    @property
    def deferring(self) -> bool:
        """True if the kernel may hold back the watermark of downstream operators (``Context.hold``). While it does, it
        is called in every micro-batch.
        """
        return False

    def on_held(self, context: Context) -> None:
        """Called in the micro-batch after one in which the kernel held back the watermark. It may emit stored rows, and
        must call ``hold`` again for those that remain.
        """
        raise NotImplementedError(f"{type(self).__name__} holds no watermark")

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregates rows before the shuffle. The result is the input of ``on_rows``, which gets the results of
        several calls as one table (``exchange.united``). Kernels with several inputs must return the rows unchanged.
        """
        return rows

    def unfold(self, folded: pa.Table) -> Iterator[pa.Table]:
        """Expands a table that was given to ``Context.emit_folded`` to its result rows, in order, in tables of about
        MOST_RESULTS rows.
        """
        raise NotImplementedError(f"{type(self).__name__} folds no results")

    def kept_rows(self, context: Context) -> int:
        """For kernels that end the query at a number of rows (LIMIT): the number of rows in the state of the key group.
        0 for all others.
        """
        return 0

    def waits(self, context: Context) -> Iterable[Wait]:
        """Counts the stored rows and timers that wait for a clock or for other rows, for monitoring. Called between two
        calls of the kernel; nothing may be emitted.
        """
        return ()

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        """Processes rows of the only input, in order of arrival."""
        raise NotImplementedError(f"{type(self).__name__} takes rows by port")

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        """Processes the rows of several inputs. ``rows`` maps the index of an input to its rows in order of arrival;
        inputs without rows are omitted, at least one has rows.
        """
        self.on_rows(rows[0], context)

    @abstractmethod
    def on_event_time(self, watermark: int, context: Context) -> None:
        """Called when ``watermark`` (microseconds) has reached the earliest event-time timer."""
        ...

    @abstractmethod
    def on_processing_time(self, time: int, context: Context) -> None:
        """Called when the processing-time clock has reached the earliest processing-time timer. ``time`` is in
        microseconds.
        """
        ...


# --- pending rows and timers ----------------------------------------------------------------------------------


class Pending(Enum):
    """The kinds of things that wait in the state of a kernel, for monitoring.

    ROWS_IN_WINDOWS: rows of open windows. ROWS: rows that are to be processed in order of time. TIMERS: timers that a
    user's function has set. HELD: rows held back until barriers are aligned. WINDOWS: open windows, where the number of
    their rows is unknown.
    """

    ROWS_IN_WINDOWS = "rows in windows"
    ROWS = "rows"
    TIMERS = "timers"
    HELD = "held"
    WINDOWS = "windows"


@dataclass(frozen=True)
class Wait:
    """How much waits in the state: ``count`` rows, windows or timers, as ``what`` says, until the clock of ``domain``
    reaches their times.

    ``first`` and ``last`` are the earliest and the latest of these times, in microseconds. ``domain`` None: they wait
    for no clock.
    """

    what: Pending
    domain: Domain | None
    count: int
    first: int = END_OF_TIME
    last: int = END_OF_TIME


def waits(
    what: Pending, domain: Domain, last: np.ndarray, count: np.ndarray | None = None, first: np.ndarray | None = None
) -> Iterator[Wait]:
    """Summarizes items that wait in the state: yields one ``Wait`` with their number, earliest and latest time, or
    nothing if there are no items. ``last``: the time in microseconds until which each item waits; ``first``: the
    earliest time of each item, by default ``last``. ``count``: how many rows each item stands for, by default 1. Items
    whose time is END_OF_TIME wait for nothing and are omitted.
    """
    first = last if first is None else first
    timed = last != END_OF_TIME if count is None else (last != END_OF_TIME) & (count > 0)
    if timed.any():
        total = int((timed if count is None else count[timed]).sum())
        yield Wait(what, domain, total, int(first[timed].min()), int(last[timed].max()))


def added(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Sums ``Wait``s: returns one for each kind of waiting item and each clock."""
    sums: dict[tuple[Pending, Domain | None], Wait] = {}
    for wait in waits:
        key = wait.what, wait.domain
        so_far = sums.get(key, Wait(*key, 0, END_OF_TIME, -END_OF_TIME))
        first, last = min(so_far.first, wait.first), max(so_far.last, wait.last)
        sums[key] = Wait(*key, so_far.count + wait.count, first, last)
    return tuple(sums.values())


# --- a store in memory that counts its traffic, for tests and calls without state -----------------------------


@dataclass
class Traffic:
    """The number of calls, entries and bytes that were read from and written to a ``Store``."""

    gets: int = 0
    puts: int = 0
    entries_read: int = 0
    entries_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass
class MemoryStore:
    """A ``Store`` in memory."""

    entries: dict[StateKey, bytes] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        values = [self.entries.get(key) for key in keys]
        self.traffic.gets += 1
        self.traffic.entries_read += len(keys)
        self.traffic.bytes_read += sum(len(value) for value in values if value is not None)
        return values

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        self.traffic.puts += 1
        self.traffic.entries_written += len(entries)
        for key, value in entries.items():
            if value is None:
                self.entries.pop(key, None)
            else:
                assert isinstance(value, bytes), f"the store takes bytes, not {type(value).__name__}"
                self.entries[key] = value
                self.traffic.bytes_written += len(value)

    def snapshot(self) -> dict[StateKey, bytes]:
        """A copy of all entries of the store."""
        return dict(self.entries)

    def restore(self, snapshot: Mapping[StateKey, bytes]) -> None:
        """Replaces all entries by those of a snapshot."""
        self.entries = dict(snapshot)

    def forget_traffic(self) -> None:
        """Resets the traffic counters."""
        self.traffic = Traffic()

    @property
    def size(self) -> int:
        """The total size of all entries in bytes."""
        return sum(map(len, self.entries.values()))
