"""What an operator with state is to the rest: a kernel, run for one key group at a time, and the context it gets.

A kernel is plain Python over Arrow tables and numpy: its configuration is the frozen instance, its state lives in the
context's store, and it knows no engine. All times inside kernels are int64 microseconds since 1970 (UTC): event times
of rows, watermarks, timers, processing times.

Order of calls for one key group within a micro-batch:

1. ``on_held`` where it held the watermark in the micro-batch before (``Context.hold``), with or without new rows
2. ``on_rows`` with rows that an operator below the exchange sent ahead of the new watermark (the old one still counts)
3. ``on_event_time`` when the new watermark reaches the earliest event-time timer
4. ``on_processing_time`` when the clock reaches the earliest processing-time timer
5. ``on_rows`` with the other rows, in order of arrival; the new watermark judges them

After each call the kernel has told the context its earliest timer of either domain (``set_timer``). What it emits up to
and with ``on_event_time`` reaches operators above before the watermark passes there.

A kernel of several inputs has as many *ports*. Its watermark is the least of theirs, and rows reach it by ``on_ports``
in place of ``on_rows``: those of all ports at once, because what two inputs change of one result in a micro-batch is to
come out once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # connectors and the planner know the columns below, and do without Arrow
    import pyarrow as pa

    from sqlstream.udfs.waiting import Wait

NO_WATERMARK = -(2**63)
"""The watermark before any row or control row."""

END_OF_TIME = 2**63 - 1
"""The watermark, and the processing time, at the end of a bounded input; as a timer: none."""

MOST_RESULTS = 2**18
"""Results that are held at once, as far as a kernel can: more come out in several tables."""

KEY_HASH = "__key_hash"
"""BIGINT column of every kernel's input: 64 bits of hash of the key columns. Its low bits chose the key group."""

EMITTED_AHEAD = "__ahead"
"""BOOLEAN column between chained operators: the row was emitted before the watermark of its batch passed."""

BARRIER = "__barrier"
"""BIGINT column between operators: a row of nothing else says that the barrier with this id was aligned, before the
rows behind it and after those ahead of it. It reaches all key groups of the operator that fires windows at barriers."""

ROW_KIND = "__row_kind"
"""STRING column of updating rows: +I, -U, +U or -D. Rows without the column are inserts. Operators say in the planner
whether they take other kinds (``changes.takes_changes``) and emit them (``properties.changelog_mode``)."""

LATE_ROWS = "late_rows"
"""The counter of rows that came behind the watermark, and that no window or frame took."""

ROWS_TAKEN = "rows_taken"
"""The counter of rows with which a kernel was called: where it combines rows in the exchange, what became of them."""

IGNORED = "ignored_deletions"
"""The counter of rows that were retracted and are not there: their time was up, or they never came."""

StateKey = tuple[str, int]
"""The name of a part of the state, and a number within it: a pane, a bucket, a chunk."""


class Domain(Enum):
    EVENT = "event"
    PROCESSING = "processing"


class Store(Protocol):
    """The state of one operator and key group: bytes by key. One call takes many keys, because calls are dear."""

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]: ...

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        """Writes the entries; None deletes one."""
        ...


class Context(Protocol):
    """The kernel's view of the outside during one call."""

    @property
    def store(self) -> Store: ...

    @property
    def watermark(self) -> int:
        """Event times up to this one are complete; NO_WATERMARK at first, END_OF_TIME at the end of the input."""
        ...

    @property
    def processing_time(self) -> int:
        """Processing times up to this one have passed: the clock is a millisecond further. END_OF_TIME at the end."""
        ...

    def emit(self, rows: pa.Table) -> None:
        """Rows of the kernel's ``output`` schema, in order."""
        ...

    def emit_folded(self, folded: pa.Table, results: int) -> None:
        """Results that are many more than what they are made of, in their place among the rows: ``Kernel.unfold`` makes
        them of this table where they are read, so that no process ever holds all of them. ``results``: how many."""
        ...

    def emit_late(self, rows: pa.Table) -> None:
        """Rows that are late for all their windows, of the kernel's ``late_output`` schema."""
        ...

    def count(self, metric: str, value: int) -> None:
        """Adds to a counter of the operator, such as LATE_ROWS and IGNORED."""
        ...

    def set_timer(self, domain: Domain, time: int) -> None:
        """The earliest time at which the kernel must be called again; END_OF_TIME for none."""
        ...

    def hold(self, time: int, rows: int = 1) -> None:
        """Operators above must not see a watermark of ``time`` or later, because of ``rows`` rows that are kept.

        What is said last in a micro-batch counts; where nothing is said in it, or END_OF_TIME, nothing is held. A row
        holds its own event time or, where the watermark had passed that when it came, the moment after the watermark:
        so no watermark overtakes it, and none goes back. Only kernels that are ``deferring`` may hold.
        """
        ...


class Kernel(ABC):
    """One operator with state. ``input`` has KEY_HASH and whatever columns the kernel names in its configuration."""

    @property
    @abstractmethod
    def output(self) -> pa.Schema: ...

    @property
    def late_output(self) -> pa.Schema | None:
        """The schema of the rows of ``emit_late``; None where late rows are only counted."""
        return None

    @property
    def uses_processing_time(self) -> bool:
        """True where timers of processing time may be set: the clock then ticks for all key groups."""
        return False

    @property
    def ports(self) -> int:
        """The number of inputs."""
        return 1

    @property
    def deferring(self) -> bool:
        """True where the kernel may hold the watermark; it is then called in every micro-batch while it does."""
        return False

    def on_held(self, context: Context) -> None:
        """The micro-batch after one in which the watermark was held: rows may go on now, the others must hold anew."""
        raise NotImplementedError(f"{type(self).__name__} holds no watermark")

    def combine(self, rows: pa.Table) -> pa.Table:
        """Pre-aggregates rows of one key group before they are exchanged; what it returns reaches ``on_rows``. Rows of
        several ports must stay as they are."""
        return rows

    def unfold(self, folded: pa.Table) -> Iterator[pa.Table]:
        """The rows that stand in a table of ``Context.emit_folded``, in order, MOST_RESULTS or little more at once."""
        raise NotImplementedError(f"{type(self).__name__} folds no results")

    def kept_rows(self, context: Context) -> int:
        """How many rows are the state of the key group, where results end with so many; 0 for all others."""
        return 0

    def waits(self, context: Context) -> Iterable[Wait]:
        """The rows and timers that the state keeps for later, read between two calls; the context takes no results
        then."""
        return ()

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        """Rows of the only input, in order of arrival."""
        raise NotImplementedError(f"{type(self).__name__} takes rows by port")

    def on_ports(self, rows: Mapping[int, pa.Table], context: Context) -> None:
        """Rows by port, each in order of arrival; ports without rows are left out, but not all of them are."""
        self.on_rows(rows[0], context)

    @abstractmethod
    def on_event_time(self, watermark: int, context: Context) -> None:
        """The watermark has reached the earliest event-time timer."""
        ...

    @abstractmethod
    def on_processing_time(self, time: int, context: Context) -> None:
        """The clock has reached the earliest processing-time timer."""
        ...
