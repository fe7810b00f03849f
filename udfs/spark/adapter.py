"""The adapter: kernels as Spark's stateful processor over blobs of rows, one call per key group and micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from sqlstream.udfs.driver import Folded, GroupContext
from sqlstream.udfs.exchange import Blob, Content, pieces, to_bytes
from sqlstream.udfs.kernel import LATE_ROWS, ROWS_TAKEN, Kernel, StateKey
from sqlstream.udfs.spark.call import Arrived
from sqlstream.udfs.spark.clocks import Clocks
from sqlstream.udfs.spark.group_entry import GroupEntry
from sqlstream.udfs.spark.stages import Ran, Stage, StageStore, entry_key, run_stages
from sqlstream.udfs.spark.state_server import Entries
from sqlstream.udfs.spark.store import CallStore
from sqlstream.udfs.state.memory import MemoryStore
from sqlstream.udfs.waiting import Wait

OUTPUT = (
    "ahead BOOLEAN, folded BOOLEAN, late_table STRING, bytes BINARY, late_rows BIGINT, hold BIGINT, pending BIGINT, "
    "stage INT, rows_taken BIGINT, rows_given BIGINT, never TIMESTAMP"
)
"""Blobs that come out: rows of the kernel's output, or late rows for a table, or neither and a count alone, or what
operators above must know of a held watermark (``udfs.exchange.HOLD``). ``folded``: the kernel makes rows of the output
of these (``Kernel.unfold``). ``stage``: whose count it is. ``rows_taken`` and ``rows_given``: how many rows reached it
in this call, and how many results it gave; on the first of the blobs, because a row more for each key group costs.

``never`` is the event time that Spark wants of rows; NULL, which no watermark has passed: else Spark refuses the rows.
"""

PENDING = "pending"
"""How many rows a key group keeps that hold the watermark."""

ROWS_GIVEN = "rows_given"


class KernelProcessor:
    """What ``ShippedProcessor`` hands the calls of Spark to. ``late_table``: where the kernel's late rows go.

    ``above``: the stages above the kernel's own, of which each reads the rows of the one before it.
    """

    def __init__(
        self, kernel: Kernel, clocks: Clocks, late_table: str | None = None, above: Sequence[Stage] = ()
    ) -> None:
        self._stages = (Stage(kernel, late_table), *above)
        self._clocks = clocks
        self._own = [entry_key(number) for number in range(len(self._stages))]

    def begin(self, entries: Entries) -> None:
        self._entries = entries
        self._expected: tuple[StateKey, ...] = ()

    def rows(self, rows: Iterator[Any], timers: TimerValues) -> Iterator[Row]:
        blobs = sorted(map(_blob, rows), key=lambda blob: (blob.partition, blob.number))
        yield from (_late(b.late_table, b.bytes) for b in blobs if b.content is Content.LATE)
        yield from self._call(Arrived(timers.getCurrentWatermarkInMs(), blobs))

    def expired(self, timers: TimerValues, timer: ExpiredTimerInfo) -> Iterator[Row]:
        yield from self._call(Arrived(timers.getCurrentWatermarkInMs()), timer.getExpiryTimeInMs())

    def waits(self, entries: Mapping[StateKey, bytes]) -> Iterator[tuple[int, Wait]]:
        """Everything that waits in the state of a key group, by stage."""
        store = MemoryStore(dict(entries))
        for number, stage in enumerate(self._stages):
            (entry_bytes,) = store.get([self._own[number]])
            entry = GroupEntry.from_bytes(entry_bytes)
            context = GroupContext(StageStore(store, number), entry.watermark, entry.clock)
            yield from ((number, wait) for wait in stage.kernel.waits(context))

    def kept_rows(self, entries: Mapping[StateKey, bytes]) -> int:
        """How many rows the first of the kernels keeps, of all state of a key group."""
        store = MemoryStore(dict(entries))
        (entry_bytes,) = store.get([self._own[0]])
        entry = GroupEntry.from_bytes(entry_bytes)
        return self._stages[0].kernel.kept_rows(GroupContext(StageStore(store, 0), entry.watermark, entry.clock))

    def _call(self, arrived: Arrived, fired: int = 0) -> Iterable[Row]:
        """``fired`` is the timer for which Spark calls, and which it deletes itself afterwards."""
        store = CallStore(self._entries, self._expected)
        before = [GroupEntry.from_bytes(entry) for entry in store.get(self._own)]
        if self._stages[0].kernel.deferring and arrived.only_calls and not before[0].waits:
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
        return self._results(ran)

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
                yield from self._told(number, stage, stage_run.context, stage_run.held)
                if any(counts[number]):
                    yield _row(stage=number, counts=counts[number])

    def _told(self, number: int, stage: Stage, context: GroupContext, held: int | None) -> Iterator[Row]:
        """The late rows and held watermark that a stage reports beside its results."""
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
