"""The adapter: kernels as Spark's stateful processor over blobs of rows, one call per key group and micro-batch.

Chained operators are stages of one adapter: each takes the results of the one below in the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from sqlstream.udfs.driver import Emitted, Folded, GroupContext, unfolded
from sqlstream.udfs.exchange import Blob, Content, Handover, pieces, to_bytes, united
from sqlstream.udfs.kernel import LATE_ROWS, ROWS_TAKEN, Domain, Kernel, MemoryStore, Pending, StateKey, Store, Wait
from sqlstream.udfs.spark.call import KEY, Arrived, Clocks, GroupEntry, held_above, run
from sqlstream.udfs.spark.call_store import CallStore, Keeping
from sqlstream.udfs.spark.shared_memory import BLOCK, shared_memory
from sqlstream.udfs.spark.state_server import Entries, from_texts

OUTPUT = (
    "ahead BOOLEAN, folded BOOLEAN, late_table STRING, bytes BINARY, late_rows BIGINT, hold BIGINT, pending BIGINT, "
    "stage INT, rows_taken BIGINT, rows_given BIGINT, never TIMESTAMP"
)
"""Blobs of the output: rows of the kernel's output, or late rows for a table, or counts alone, or a held watermark for
operators above (``udfs.exchange.HOLD``). ``folded``: the kernel expands the rows (``Kernel.unfold``). ``stage``: the
stage of the counts. ``rows_taken`` and ``rows_given``: the rows that reached it in this call, and the results that it
emitted; on the first of the blobs, because an additional row per key group would be expensive.

``never`` is the event time that Spark requires of rows. It is NULL, which no watermark has passed: Spark would reject
the rows otherwise.
"""

PENDING = "pending"
"""The counter of rows in a key group that hold the watermark."""

ROWS_GIVEN = "rows_given"


class KernelProcessor:
    """Runs the kernels of a stateful operator for the calls that Spark makes to ``ShippedProcessor``. ``late_table``:
    the table that gets the kernel's late rows.

    ``above``: the kernels that are chained downstream of ``kernel``, in order; each gets the rows of the previous one
    without a shuffle. ``state_memory``: the bytes of memory, on each machine, in which state is kept between calls.
    """

    def __init__(
        self,
        kernel: Kernel,
        clocks: Clocks,
        late_table: str | None = None,
        above: Sequence[Stage] = (),
        state_memory: int = 0,
    ) -> None:
        self._stages = (Stage(kernel, late_table), *above)
        self._clocks = clocks
        self._own = [entry_key(number) for number in range(len(self._stages))]
        self._state_memory = state_memory

    def begin(self, entries: Entries) -> None:
        """Called before the first call of a task, with the access to Spark's state."""
        memory = shared_memory() if self._state_memory >= BLOCK else None
        self._entries = entries
        self._keeping = None if memory is None else Keeping(memory, self._state_memory)
        self._is_kept = memory is not None
        self._expected: tuple[StateKey, ...] = ()

    def rows(self, rows: Iterator[Any], timers: TimerValues) -> Iterator[Row]:
        """Processes what has arrived for a key group: ``rows`` of the exchange (blobs), each of which has many input
        rows packed as bytes. Returns the output, also as blobs.
        """
        blobs = sorted(map(_blob, rows), key=lambda blob: (blob.partition, blob.number))
        yield from (_late(b.late_table, b.bytes) for b in blobs if b.content is Content.LATE)
        yield from self._call(Arrived.of_blobs(timers.getCurrentWatermarkInMs(), blobs))

    def expired(self, timers: TimerValues, timer: ExpiredTimerInfo) -> Iterator[Row]:
        """Processes a Spark timer of a key group that has expired. Returns the output as blobs: rows that contain many
        result rows packed as bytes.
        """
        yield from self._call(Arrived(timers.getCurrentWatermarkInMs()), timer.getExpiryTimeInMs())

    def waits(self, entries: Mapping[StateKey, bytes]) -> Iterator[tuple[int, Wait]]:
        """Yields pairs: the index of a chained kernel, and a ``Wait`` that counts its pending rows or timers.
        ``entries`` are all state entries of a key group.
        """
        store = MemoryStore(dict(entries))
        for number, stage in enumerate(self._stages):
            (entry_bytes,) = store.get([self._own[number]])
            entry = GroupEntry.from_bytes(entry_bytes)
            context = GroupContext(StageStore(store, number), entry.watermark, entry.clock)
            yield from ((number, wait) for wait in stage.kernel.waits(context))

    def kept_rows(self, entries: Mapping[StateKey, bytes]) -> int:
        """How many rows the state of a key group has, for kernels that may end the query at a number of rows (LIMIT); 0
        for others. ``entries`` are all its state entries.
        """
        store = MemoryStore(dict(entries))
        (entry_bytes,) = store.get([self._own[0]])
        entry = GroupEntry.from_bytes(entry_bytes)
        return self._stages[0].kernel.kept_rows(GroupContext(StageStore(store, 0), entry.watermark, entry.clock))

    def _call(self, arrived: Arrived, fired: int = 0) -> Iterable[Row]:
        """``fired`` is the timer for which Spark calls, and which it deletes itself afterwards."""
        store = CallStore(self._entries, () if self._is_kept else self._expected, self._keeping)
        before = [GroupEntry.from_bytes(entry) for entry in store.get(self._own)]
        if self._stages[0].kernel.deferring and arrived.only_calls and not self._waits(before, arrived.watermark_ms):
            return ()  # all key groups are called in every micro-batch
        parts = [StageStore(store, number) for number in range(len(self._stages))]
        ran = run_stages(self._stages, self._clocks, parts, before, arrived)
        self._expected = tuple(key for stage_store in parts for key in stage_store.began_with)
        changed = {own: stage.after.to_bytes() for own, stage in zip(self._own, ran, strict=True)
                   if stage.after != stage.before}  # fmt: skip
        if changed:
            store.put(changed)
        scheduled, timer = _earliest(stage.before for stage in ran), _earliest(stage.after for stage in ran)
        moved = timer != scheduled
        deleted = scheduled if moved and scheduled not in (0, fired) else None
        store.flush(deleted, timer if moved and timer else None)
        self._is_kept = store.is_kept
        return self._results(ran)

    @staticmethod
    def _waits(entries: Sequence[GroupEntry], watermark_ms: int) -> bool:
        """Whether a key group must run without input. Earlier builds let timers of Spark pass unheard, so that an
        entry may name one that Spark no longer has: it is due at the next call."""
        return entries[0].waits or any(entry.is_due(watermark_ms) for entry in entries)

    def _results(self, ran: Sequence[Ran]) -> Iterator[Row]:
        counts = [_counts(stage_run.context) for stage_run in ran]
        top, last = len(ran) - 1, ran[-1].context
        for ahead, emitted in (last.emitted if last is not None else {}).items():
            for is_folded, parts in groupby(emitted, lambda emission: isinstance(emission, Folded)):
                tables = [emission.rows if isinstance(emission, Folded) else emission for emission in parts]
                for piece in tables if is_folded else _pieces(tables):
                    yield _row(ahead=ahead, folded=is_folded, rows=to_bytes(piece), stage=top, counts=counts[top])
                    counts[top] = _NONE
        for number, (stage, stage_run) in enumerate(zip(self._stages, ran, strict=True)):
            if stage_run.context is not None:
                yield from self._reports(number, stage, stage_run.context, stage_run.held)
                if any(counts[number]):
                    yield _row(stage=number, counts=counts[number])

    def _reports(self, number: int, stage: Stage, context: GroupContext, held: int | None) -> Iterator[Row]:
        """The late rows and the held watermark of a stage, in addition to its results."""
        if stage.late_table is not None:
            yield from (_late(stage.late_table, to_bytes(piece)) for piece in _pieces(context.late))
        if held is not None:
            yield _row(hold=held, pending=context.held_rows, stage=number)


class _Counts(NamedTuple):
    """What a stage counts in a call."""

    late_rows: int = 0
    rows_taken: int = 0
    rows_given: int = 0


_NONE = _Counts()


def _counts(context: GroupContext | None) -> _Counts:
    if context is None:
        return _NONE
    return _Counts(context.counters.get(LATE_ROWS, 0), context.counters.get(ROWS_TAKEN, 0), context.rows_given)


def _earliest(entries: Iterable[GroupEntry]) -> int:
    """The timer that Spark has for all stages; 0 for none."""
    return min((entry.spark_timer for entry in entries if entry.spark_timer), default=0)


def _pieces(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    return pieces(pa.concat_tables(tables)) if tables else iter(())


def _blob(row: Row) -> Blob:
    fields: Mapping[str, Any] = row.asDict()
    content = bytes(fields["bytes"]) if fields["bytes"] is not None else None
    return Blob(**{**fields, "content": Content(fields["content"]), "bytes": content})


def _late(table: str | None, rows: bytes | None) -> Row:
    return _row(late_table=table, rows=rows)


def _row(
    *,
    ahead: bool = False,
    folded: bool = False,
    late_table: str | None = None,
    rows: bytes | None = None,
    hold: int | None = None,
    pending: int = 0,
    stage: int = 0,
    counts: _Counts = _NONE,
) -> Row:
    return Row(
        ahead=ahead,
        folded=folded,
        late_table=late_table,
        bytes=rows,
        late_rows=counts.late_rows,
        hold=hold,
        pending=pending,
        stage=stage,
        rows_taken=counts.rows_taken,
        rows_given=counts.rows_given,
        never=None,
    )


# --- chained operators: several kernels in one call of Spark --------------------------------------------------
# A stage is called whenever it would be called after an exchange of its own: when it gets rows, or when its timer is
# due.


_FEW = 12


@dataclass(frozen=True)
class Stage:
    """A kernel in a chain of kernels that run in one Spark operator. ``late_table``: the table that gets its late rows.
    ``handover``: converts rows of the previous kernel to input rows of this one; None for the first.
    """

    kernel: Kernel
    late_table: str | None = None
    handover: Handover | None = None

    def handed(self, below: Kernel, emitted: Mapping[bool, Sequence[Emitted]]) -> dict[Content, pa.Table]:
        """Converts results of the previous kernel, ``below``, to input rows of this one. ``emitted`` has under True the
        results that were emitted before the watermark advanced, under False the others; in the returned dictionary
        these are the rows of Content.AHEAD and Content.ROWS.
        """
        contents = ((Content.AHEAD, emitted[True]), (Content.ROWS, emitted[False]))
        return {content: self._rows(below, emissions) for content, emissions in contents if emissions}

    def _rows(self, below: Kernel, emitted: Sequence[Emitted]) -> pa.Table:
        """Results that are folded are combined part by part."""
        assert self.handover is not None, "the lowest stage takes blobs"
        plain = [emission for emission in emitted if not isinstance(emission, Folded)]
        if len(plain) == len(emitted):
            return self.kernel.combine(self.handover.rows(plain))
        unfolded_rows = (self.handover.rows([emission]) for emission in unfolded(below, emitted))
        return united([self.kernel.combine(rows) for rows in unfolded_rows])


@dataclass(frozen=True)
class Ran:
    """The outcome of a call for one kernel of a chain. ``before`` and ``after``: what the adapter stores for the kernel
    and the key group. ``context``: has the output; None if the kernel was not called.

    ``held``: the event time (microseconds) that the watermark of downstream operators must not reach, END_OF_TIME when
    that restriction ends, None for no change.
    """

    before: GroupEntry
    after: GroupEntry
    context: GroupContext | None = None
    held: int | None = None


class StageStore:
    """The state of the chained kernel with the index ``number``, within the one state store that all kernels of the
    chain share.
    """

    def __init__(self, whole: Store, number: int) -> None:
        self._whole = whole
        self._place = number
        self._first: tuple[StateKey, ...] | None = None

    @property
    def began_with(self) -> tuple[StateKey, ...]:
        """The keys that the kernel's first read requested, if they are few; else empty. They are a guess for what the
        next call will read.
        """
        return self._first if self._first is not None and len(self._first) <= _FEW else ()

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        own = [self._own(key) for key in keys]
        self._first = tuple(own) if self._first is None else self._first
        return self._whole.get(own)

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        self._whole.put({self._own(key): value for key, value in entries.items()})

    def _own(self, key: StateKey) -> StateKey:
        return (f"{self._place}/{key[0]}", key[1]) if self._place else key


def entry_key(number: int) -> StateKey:
    """The key, in the shared state store, under which the adapter stores the ``GroupEntry`` of the chained kernel with
    the index ``number``.
    """
    return KEY[0], KEY[1] + number


def run_stages(
    stages: Sequence[Stage], clocks: Clocks, parts: Sequence[Store], entries: Sequence[GroupEntry], arrived: Arrived
) -> list[Ran]:
    """Calls all chained kernels, in the direction of the data flow, for one key group. The first gets the input
    ``arrived``, each other one the results of the previous one. ``parts`` and ``entries`` have, for each kernel, its
    state store and the adapter's entry. Returns the outcome for each kernel.
    """
    runs: list[Ran] = []
    for number, (stage, stage_store, entry) in enumerate(zip(stages, parts, entries, strict=True)):
        if number:
            below = runs[-1].context
            handed = {} if below is None else stage.handed(stages[number - 1].kernel, below.emitted)
            arrived = Arrived(arrived.watermark_ms, handed=handed, newest=arrived.newest)
        due = entry.is_due(arrived.watermark_ms) or entry.event_timer <= clocks.reached(arrived.newest)
        called = bool(arrived.blobs or arrived.handed) or due or len(stages) == 1
        runs.append(_ran(stage.kernel, clocks, stage_store, entry, arrived) if called else Ran(entry, entry))
    return runs


def _ran(kernel: Kernel, clocks: Clocks, stage_store: Store, entry: GroupEntry, arrived: Arrived) -> Ran:
    context, after = run(kernel, clocks, stage_store, entry, arrived)
    timer = clocks.spark_timer(after.event_timer, after.processing_timer, after.watermark) or 0
    if arrived.held_back and timer <= arrived.watermark_ms:
        timer = 0  # the next micro-batch decides again whether the watermark is held
    return Ran(entry, replace(after, spark_timer=timer), context, held_above(clocks, context, entry, arrived))


# --- counts of what is pending in the state of an operator that is not running --------------------------------


WAITS_DDL = "stage INT, what STRING, domain STRING, count LONG, first LONG, last LONG"

KEPT_DDL = "rows LONG"

_WAITS = pa.schema([
    ("stage", pa.int32()), ("what", pa.string()), ("domain", pa.string()),
    ("count", pa.int64()), ("first", pa.int64()), ("last", pa.int64()),
])  # fmt: skip


def waits_of_group(processor: KernelProcessor) -> Callable[[pa.Table], pa.Table]:
    """A function that counts the rows and timers that are pending in a key group, given all of its state entries.

    Its input table has the columns name, number and text; its output has the columns of WAITS_DDL.
    """

    def counted(entries: pa.Table) -> pa.Table:
        counts = [(stage, *_values(wait)) for stage, wait in processor.waits(_state(entries))]
        columns = zip(*counts, strict=True) if counts else ((),) * len(_WAITS)
        return pa.table([pa.array(values, f.type) for values, f in zip(columns, _WAITS, strict=True)], schema=_WAITS)

    return counted


def kept_of_group(processor: KernelProcessor) -> Callable[[pa.Table], pa.Table]:
    """A function that counts the stored rows of a key group, given all of its state entries.

    Its input table has the columns name, number and text; its output is a row with the columns of KEPT_DDL.
    """
    return lambda entries: pa.table({"rows": pa.array([processor.kept_rows(_state(entries))], pa.int64())})


def _state(entries: pa.Table) -> Mapping[StateKey, bytes]:
    keys = zip(entries.column("name").to_pylist(), entries.column("number").to_pylist(), strict=True)
    return dict(zip(keys, from_texts(entries.column("text").to_pylist()), strict=True))


def _values(wait: Wait) -> tuple[str, str | None, int, int, int]:
    return wait.what.value, wait.domain.value if wait.domain else None, wait.count, wait.first, wait.last


def wait_of(what: str, domain: str | None, count: int, first: int, last: int) -> Wait:
    """Makes a ``Wait``, a count of pending rows or timers, of the values of a row of WAITS_DDL. ``what`` is the value
    of a ``Pending``, ``domain`` that of the clock they wait for, None for no clock; ``first`` and ``last`` are in
    microseconds.
    """
    return Wait(Pending(what), None if domain is None else Domain(domain), count, first, last)
