"""One call of Spark for one key group: its blobs, clocks and timer as the micro-batch that drives the kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sqlstream.udfs.driver import GroupContext, MicroBatch, Ports, drive
from sqlstream.udfs.exchange import Blob, Content, rows_in_order
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK, ROWS_TAKEN, Domain, Kernel, StateKey, Store
from sqlstream.udfs.spark import Watermark

_MILLISECOND = 1000

AFTER_THE_END = "ROWS_AFTER_THE_END_OF_INPUT"
"""The error for rows that arrive although an earlier run has ended the input and fired all timers."""


@dataclass(frozen=True)
class Arrived:
    """The input of a key group in a micro-batch: its blobs (rows of the exchange that have many input rows as bytes),
    in order of arrival. ``watermark_ms`` is Spark's watermark in milliseconds.

    ``handed``: for chained kernels instead the rows of the kernel upstream, by whether they were emitted before the
    watermark advanced (AHEAD) or not (ROWS). ``newest``: the newest event time of all rows of the micro-batch, in
    microseconds; NO_WATERMARK if the exchange does not send it to key groups.
    """

    watermark_ms: int
    blobs: Sequence[Blob] = ()
    handed: Mapping[Content, pa.Table] = field(default_factory=dict)
    newest: int = NO_WATERMARK

    @staticmethod
    def of_blobs(watermark_ms: int, blobs: Sequence[Blob]) -> Arrived:
        """What has come from the exchange."""
        told = (blob.clock for blob in blobs if blob.content is Content.REACHED and blob.clock is not None)
        return Arrived(watermark_ms, blobs, newest=max(told, default=NO_WATERMARK))

    def rows(self, content: Content) -> Ports:
        """The input rows of this kind: AHEAD for rows that were emitted before the watermark advanced, ROWS for others.
        A dictionary from port (the index of the input) to tables.
        """
        if content in self.handed:
            return {0: [self.handed[content]]}
        return _by_port([blob for blob in self.of(content) if content is not Content.AHEAD or blob.clock is None])

    @property
    def fired(self) -> Mapping[int, Ports]:
        """The rows that processing-time timers of upstream operators emitted: a dictionary from the processing time of
        the firing, in microseconds, to their tables by port (the index of the input).
        """
        blobs = [blob for blob in self.of(Content.AHEAD) if blob.clock is not None]
        clocks = sorted({blob.clock for blob in blobs if blob.clock is not None})
        return {clock - _MILLISECOND: _by_port([b for b in blobs if b.clock == clock]) for clock in clocks}

    def of(self, content: Content) -> list[Blob]:
        """The blobs of this kind, such as input rows or ticks. A blob is a row of the exchange, often with many rows as
        bytes.
        """
        return [blob for blob in self.blobs if blob.content is content]

    @property
    def tick(self) -> int:
        """The processing time of the newest tick in microseconds; NO_WATERMARK if there is no tick."""
        return max((blob.clock for blob in self.of(Content.TICK) if blob.clock is not None), default=NO_WATERMARK)

    @property
    def held(self) -> int | None:
        """The event time in microseconds that the query's watermark must not reach, as reported by upstream operators;
        END_OF_TIME if that restriction has ended, None without a report.
        """
        return min((blob.clock for blob in self.of(Content.HOLD) if blob.clock is not None), default=None)

    @property
    def held_back(self) -> bool:
        """True if an upstream operator holds back the watermark."""
        return self.held not in (None, END_OF_TIME)

    @property
    def only_calls(self) -> bool:
        """True if the input consists only of ticks of processing time, which every key group gets in each micro-batch.
        False without any input, as when a timer expires.
        """
        return bool(self.blobs) and all(blob.content is Content.TICK for blob in self.blobs)

    @property
    def clock_of_rows(self) -> int:
        """The processing time in microseconds that was over when the first of the rows arrived; NO_WATERMARK if
        unknown.
        """
        clocks = (blob.clock for blob in self.of(Content.ROWS) if blob.clock is not None)
        return min(clocks, default=NO_WATERMARK + _MILLISECOND) - _MILLISECOND


def run(
    kernel: Kernel, clocks: Clocks, store: Store, entry: GroupEntry, arrived: Arrived
) -> tuple[GroupContext, GroupEntry]:
    """Calls the kernel with the input of a key group in a micro-batch. Returns a pair: the context, which has the
    output, and the entry to store for the key group.
    """
    timers = {Domain.EVENT: entry.event_timer, Domain.PROCESSING: entry.processing_timer}
    context = GroupContext(store, entry.watermark, entry.clock, timers)
    batch = _micro_batch(clocks, entry, arrived)
    context.count(ROWS_TAKEN, _rows_of((batch.ahead, batch.rows, *batch.fired.values())))
    drive(kernel, context, batch, holds=entry.holds)
    return context, _next_entry(entry, context)


def held_above(clocks: Clocks, context: GroupContext, before: GroupEntry, arrived: Arrived) -> int | None:
    """The event time in microseconds that the query's watermark must not reach downstream: END_OF_TIME when that
    restriction ends, None if it does not change.

    The kernel's own watermark may be earlier than the query's by a fixed interval; the result is a time of the query's
    watermark.
    """
    if arrived.held is None and context.held == END_OF_TIME and not before.holds:
        return None
    held = context.held if context.held == END_OF_TIME else context.held + clocks.held_back
    return held if arrived.held is None else min(held, arrived.held)


def _micro_batch(clocks: Clocks, entry: GroupEntry, arrived: Arrived) -> MicroBatch:
    watermark, clock = clocks.times(arrived.watermark_ms, arrived.tick)
    rows = arrived.rows(Content.ROWS)
    if rows and not arrived.handed and clocks.ends and clocks.of_spark(arrived.watermark_ms) == END_OF_TIME:
        raise RuntimeError(f"{AFTER_THE_END}: the watermark of the checkpoint is at the end of time")
    if arrived.held is not None and arrived.held_back:  # the end of the input comes when all rows have come
        watermark = min(watermark, clocks.below(arrived.held))
        clock = NO_WATERMARK if clock == END_OF_TIME else clock
    return MicroBatch(
        max(watermark, entry.watermark),
        max(clock, entry.clock, arrived.clock_of_rows),
        arrived.rows(Content.AHEAD),
        rows,
        input_ended=watermark == END_OF_TIME,
        reached=clocks.reached(arrived.newest),
        clock_ahead=clocks.watermark is Watermark.CLOCK or clocks.chained_by_clock,
        fired=arrived.fired,
    )


def _rows_of(parts: Iterable[Ports]) -> int:
    return sum(int(table.num_rows) for ports in parts for tables in ports.values() for table in tables)


def _by_port(blobs: Sequence[Blob]) -> Ports:
    ports = sorted({blob.port for blob in blobs})
    return {port: rows_in_order(blob for blob in blobs if blob.port == port) for port in ports}


def _next_entry(entry: GroupEntry, context: GroupContext) -> GroupEntry:
    return replace(
        entry,
        watermark=context.watermark,
        clock=context.processing_time,
        event_timer=context.timers[Domain.EVENT],
        processing_timer=context.timers[Domain.PROCESSING],
        holds=context.held != END_OF_TIME,
    )


# --- Spark's watermark and the two clocks of a kernel ---------------------------------------------------------


@dataclass(frozen=True)
class Clocks:
    """Converts between Spark's watermark, in milliseconds, and the two clocks of a kernel, in microseconds.

    Spark's watermark starts at 0; it is shifted by ``shift_ms``, so that times before 1970 are above 0 too. From
    ``end_ms`` (milliseconds since 1970) on it means the end of the input. ``chained_by_clock``: downstream operators
    use the same processing-time clock, so rows that it fires must reach them before their clock advances. ``ends``: no
    rows arrive once the watermark is at the end of the input; false if upstream operators may hold rows.
    ``held_back_ms``: by how much the kernel's event time is earlier than Spark's watermark, except at the end of the
    input. ``delay_ms``: by how much Spark's watermark is earlier than the newest row.
    """

    watermark: Watermark
    shift_ms: int
    end_ms: int
    chained_by_clock: bool = False
    ends: bool = True
    held_back_ms: int = 0
    delay_ms: int = 0

    def of_spark(self, watermark_ms: int) -> int:
        """The event time, in microseconds since 1970, for a watermark of Spark in milliseconds; END_OF_TIME at the end
        of the input.
        """
        if watermark_ms <= 0 or self.watermark is Watermark.NONE:
            return NO_WATERMARK
        return self.micros(watermark_ms - self.shift_ms)

    def micros(self, ms: int) -> int:
        """Converts milliseconds since 1970 to microseconds; END_OF_TIME from the end of the input (``end_ms``) on."""
        return END_OF_TIME if ms >= self.end_ms else ms * 1000

    def reached(self, newest: int) -> int:
        """The kernel's event time in microseconds once Spark computes its watermark from rows up to the time
        ``newest``, in microseconds; NO_WATERMARK for NO_WATERMARK.
        """
        if newest == NO_WATERMARK:
            return NO_WATERMARK
        return self._held_back(self.of_spark(newest // _MILLISECOND + self.shift_ms - self.delay_ms))

    def times(self, watermark_ms: int, tick: int) -> tuple[int, int]:
        """The kernel's event time and processing time in microseconds, NO_WATERMARK if unknown. ``tick``: the newest
        tick of the micro-batch in microseconds.
        """
        time = self._held_back(self.of_spark(watermark_ms))
        if self.watermark is Watermark.CLOCK:
            return (time if time == END_OF_TIME else NO_WATERMARK), time
        if time == END_OF_TIME or tick >= self.end_ms * 1000:
            return time, END_OF_TIME
        return time, tick

    @property
    def held_back(self) -> int:
        """By how many microseconds the kernel's event time is earlier than Spark's watermark."""
        return _MILLISECOND * self.held_back_ms

    def below(self, held: int) -> int:
        """The greatest event time, in microseconds, that the kernel may be given while the query's watermark must not
        reach ``held``. It is before the millisecond of that time, because windows close a millisecond before their end.
        """
        return max(held - held % _MILLISECOND - 1 - self.held_back, NO_WATERMARK)

    def _held_back(self, time: int) -> int:
        return time if time in (NO_WATERMARK, END_OF_TIME) else max(time - self.held_back, NO_WATERMARK)

    def spark_timer(self, event_timer: int, processing_timer: int, watermark: int) -> int | None:
        """The time of the timer to register with Spark, in Spark's milliseconds, above 0 and after ``watermark``; None
        if the kernel needs no call. The kernel's timers are in microseconds.

        A timer before the year 1, where Spark's clock starts, waits for the first watermark of Spark. A timer on a
        clock that Spark does not know waits for the end of the input, at which both clocks end.
        """
        if self.watermark is Watermark.NONE or watermark == END_OF_TIME:
            return None
        own, other = event_timer, processing_timer
        if self.watermark is Watermark.CLOCK:
            own, other = other, own
        if own == END_OF_TIME and other == END_OF_TIME:
            return None
        due_ms = self.end_ms if own == END_OF_TIME else min(-(-own // 1000) + self.held_back_ms, self.end_ms)
        # A held-back watermark may precede Spark's first one.
        after_ms = max(-self.shift_ms, watermark // 1000 + self.held_back_ms) + 1
        return max(due_ms, after_ms) + self.shift_ms


# --- the adapter's own state: one small entry per key group, read and written in each call --------------------


KEY: StateKey = ("", 0)
"""The key of the entry. Kernels use names for their parts of the state."""

_FORMAT = struct.Struct("<5q")
_HOLDS = b"\x01"


@dataclass(frozen=True)
class GroupEntry:
    """What the adapter stores for a key group besides the kernel's own state.

    ``watermark`` and ``clock`` as the kernel saw them last; its earliest timer of either domain, END_OF_TIME for none;
    the timer registered with Spark, in Spark's milliseconds, 0 for none; and whether the kernel holds back the
    watermark.
    """

    watermark: int = NO_WATERMARK
    clock: int = NO_WATERMARK
    event_timer: int = END_OF_TIME
    processing_timer: int = END_OF_TIME
    spark_timer: int = 0
    holds: bool = False

    @property
    def waits(self) -> bool:
        """True if the kernel must be called even without input, because it holds back the watermark or has a
        processing-time timer.
        """
        return self.holds or self.processing_timer != END_OF_TIME

    def is_due(self, watermark_ms: int) -> bool:
        """True if Spark's watermark, ``watermark_ms``, has reached the timer that was registered with Spark."""
        return 0 < self.spark_timer <= watermark_ms

    def to_bytes(self) -> bytes:
        """The entry as bytes."""
        times = (self.watermark, self.clock, self.event_timer, self.processing_timer, self.spark_timer)
        return _FORMAT.pack(*times) + (_HOLDS if self.holds else b"")

    @staticmethod
    def from_bytes(value: bytes | None) -> GroupEntry:
        """The entry that ``to_bytes`` wrote; an initial one for None."""
        if value is None:
            return GroupEntry()
        watermark, clock, event_timer, processing_timer, spark_timer = _FORMAT.unpack_from(value)
        return GroupEntry(watermark, clock, event_timer, processing_timer, spark_timer, holds=len(value) > _FORMAT.size)
