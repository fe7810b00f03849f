"""The adapter: a kernel as Spark's stateful processor over blobs of rows, one call per key group and micro-batch."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from sqlstream.udfs.exchange import Blob, Content, pieces, to_bytes
from sqlstream.udfs.kernel import Kernel, StateKey
from sqlstream.udfs.spark.call import Arrived, GroupContext, run
from sqlstream.udfs.spark.clocks import Clocks
from sqlstream.udfs.spark.group_entry import KEY, GroupEntry
from sqlstream.udfs.spark.state_server import Entries
from sqlstream.udfs.spark.store import CallStore

OUTPUT = (
    "ahead BOOLEAN, late_table STRING, bytes BINARY, late_rows BIGINT, hold BIGINT, pending BIGINT, never TIMESTAMP"
)
"""Blobs that come out: rows of the kernel's output, or late rows for a table, or neither and a count alone, or what
operators above must know of a held watermark (``udfs.exchange.HOLD``).

``never`` is a time that only the watermark at the end of the input reaches: Spark then refuses any row to come.
"""

LATE_ROWS = "late_rows"
PENDING = "pending"
"""How many rows a key group keeps that hold the watermark."""

_NEVER = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)


class KernelProcessor:
    """What ``ShippedProcessor`` hands the calls of Spark to. ``late_table``: where the kernel's late rows go."""

    def __init__(self, kernel: Kernel, clocks: Clocks, late_table: str | None = None) -> None:
        self._kernel = kernel
        self._clocks = clocks
        self._late_table = late_table

    def begin(self, entries: Entries) -> None:
        self._entries = entries
        self._expected: tuple[StateKey, ...] = ()

    def rows(self, rows: Iterator[Any], timers: TimerValues) -> Iterator[Row]:
        blobs = sorted(map(_blob, rows), key=lambda blob: (blob.partition, blob.number))
        yield from (_late(b.late_table, b.bytes) for b in blobs if b.content is Content.LATE)
        yield from self._call(Arrived(timers.getCurrentWatermarkInMs(), blobs))

    def expired(self, timers: TimerValues, timer: ExpiredTimerInfo) -> Iterator[Row]:
        yield from self._call(Arrived(timers.getCurrentWatermarkInMs()), timer.getExpiryTimeInMs())

    def _call(self, arrived: Arrived, fired: int = 0) -> Iterable[Row]:
        """``fired`` is the timer for which Spark calls, and which it deletes itself afterwards."""
        store = CallStore(self._entries, self._expected)
        before = GroupEntry.from_bytes(store.get([KEY])[0])
        if self._kernel.deferring and arrived.only_calls and not before.waits:
            return ()  # all key groups are called in every micro-batch
        context, after = run(self._kernel, self._clocks, store, before, arrived)
        self._expected = store.began_with
        timer = self._clocks.spark_timer(after.event_timer, after.processing_timer, after.watermark) or 0
        if context.held_back and timer <= arrived.watermark_ms:
            timer = 0  # the next micro-batch says again what is held, or that nothing is
        after = replace(after, spark_timer=timer)
        if after != before:
            store.put({KEY: after.to_bytes()})
        moved = timer != before.spark_timer
        deleted = before.spark_timer if moved and before.spark_timer not in (0, fired) else None
        store.flush(deleted, timer if moved and timer else None)
        return self._results(context, before)

    def _results(self, context: GroupContext, before: GroupEntry) -> Iterator[Row]:
        for ahead, tables in context.emitted.items():
            yield from (_row(ahead=ahead, rows=to_bytes(piece)) for piece in _pieces(tables))
        if self._late_table is not None:
            yield from (_late(self._late_table, to_bytes(piece)) for piece in _pieces(context.late))
        if context.counters.get(LATE_ROWS):
            yield _row(late_rows=context.counters[LATE_ROWS])
        held = context.held_above(before)
        if held is not None:
            yield _row(hold=held, pending=context.held_rows)


def _pieces(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    return pieces(pa.concat_tables(tables)) if tables else iter(())


def _blob(row: Row) -> Blob:
    found: Mapping[str, Any] = row.asDict()
    content = bytes(found["bytes"]) if found["bytes"] is not None else None
    return Blob(**{**found, "content": Content(found["content"]), "bytes": content})


def _late(table: str | None, rows: bytes | None) -> Row:
    return _row(late_table=table, rows=rows)


def _row(
    *,
    ahead: bool = False,
    late_table: str | None = None,
    rows: bytes | None = None,
    late_rows: int = 0,
    hold: int | None = None,
    pending: int = 0,
) -> Row:
    return Row(
        ahead=ahead,
        late_table=late_table,
        bytes=rows,
        late_rows=late_rows,
        hold=hold,
        pending=pending,
        never=_NEVER,
    )
