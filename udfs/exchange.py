"""The columnar exchange: rows in Arrow batches become one blob per key group, which knows its place in the order.

A blob is an Arrow IPC stream of rows of one key group and one partition of the source. Rows arrived in the order of
(partition, number of the blob, position in the blob). Ticks of processing time go to every key group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import EMITTED_AHEAD, KEY_HASH, Kernel

TICK = "__tick"
"""BIGINT column of the exchange's input: microseconds of a tick of processing time, NULL for rows of data."""

CLOCK = "__processing_time"
"""BIGINT column of the exchange's input: when a row came, in microseconds."""

LATE_TABLE = "__late_table"
"""STRING column between operators: the row holds late rows for this table, which pass all operators by."""

LATE = "__late"
"""BINARY column between operators: the late rows."""

ROWS_PER_CUT = 1 << 19
BYTES_PER_CUT = 1 << 27
"""How much of a partition is gathered before it is cut by key group: blobs of few rows cost more than they carry."""


class Content(IntEnum):
    """What a blob holds: rows sent ahead of the watermark, rows, a tick, or late rows on their way to a table."""

    AHEAD = 0
    ROWS = 1
    TICK = 2
    LATE = 3


BLOBS = pa.schema(
    [
        ("key_group", pa.int32()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("content", pa.int32()),
        ("clock", pa.int64()),
        ("late_table", pa.string()),
        ("bytes", pa.binary()),
    ]
)
"""``clock``: the time of a tick, or when the first row of the blob came, in microseconds; NULL where rows say not."""


class Blob(NamedTuple):
    """A row of ``BLOBS``."""

    key_group: int
    partition: int
    number: int
    content: int
    clock: int | None = None
    late_table: str | None = None
    bytes: bytes | None = None


@dataclass(frozen=True)
class Exchange:
    """Cuts rows by key group, of which there are ``groups``, after the kernel has combined what it can."""

    kernel: Kernel
    groups: int

    def blobs(self, batches: Iterable[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        """Batches of schema BLOBS for the batches of one partition."""
        number = 0
        for table in gathered(batches):
            found = [*self._passing(table), *self._ticks(table), *self._rows(table)]
            placed = [blob._replace(partition=partition, number=number + i) for i, blob in enumerate(found)]
            number += len(placed)
            if placed:
                yield pa.RecordBatch.from_arrays(
                    [pa.array(c, f.type) for c, f in zip(zip(*placed, strict=True), BLOBS, strict=True)], schema=BLOBS
                )

    def _rows(self, table: pa.Table) -> Iterator[Blob]:
        rows = _of_data(table)
        if EMITTED_AHEAD in rows.column_names:
            ahead = pc.fill_null(rows.column(EMITTED_AHEAD), False)
            rows = rows.drop_columns([EMITTED_AHEAD])
            yield from self._cut(rows.filter(ahead), Content.AHEAD)
            rows = rows.filter(pc.invert(ahead))
        yield from self._cut(rows, Content.ROWS)

    def _cut(self, rows: pa.Table, content: Content) -> Iterator[Blob]:
        if not rows.num_rows:
            return
        clock = pc.min(rows.column(CLOCK)).as_py() if CLOCK in rows.column_names else None
        for group, part in cut(self.kernel.combine(rows), self.groups):
            yield Blob(group, 0, 0, content, clock, None, to_bytes(part))

    def _ticks(self, table: pa.Table) -> Iterator[Blob]:
        """The newest tick, for every key group."""
        if TICK not in table.column_names:
            return
        newest = pc.max(table.column(TICK)).as_py()
        if newest is not None:
            yield from (Blob(group, 0, 0, Content.TICK, newest) for group in range(self.groups))

    def _passing(self, table: pa.Table) -> Iterator[Blob]:
        if LATE_TABLE not in table.column_names:
            return
        late = table.filter(pc.is_valid(table.column(LATE_TABLE)))
        for name, rows in zip(late.column(LATE_TABLE).to_pylist(), late.column(LATE).to_pylist(), strict=True):
            yield Blob(0, 0, 0, Content.LATE, None, name, rows)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches in tables of ROWS_PER_CUT rows or BYTES_PER_CUT bytes and little more, columns in one chunk."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_PER_CUT or size >= BYTES_PER_CUT:
            yield pa.Table.from_batches(pending).combine_chunks()
            pending, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(pending).combine_chunks()


def cut(rows: pa.Table, groups: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each key group that has any, in order of arrival."""
    if not rows.num_rows:
        return
    if groups == 1:
        yield 0, rows
        return
    group_of = key_groups(rows, groups)
    order = np.argsort(group_of, kind="stable")  # a radix sort, for integers of 16 bits
    ends = np.cumsum(np.bincount(group_of, minlength=groups))
    taken = rows.take(pa.array(order))
    start = 0
    for group, end in enumerate(ends.tolist()):
        if end > start:
            yield group, taken.slice(start, end - start)
        start = end


def key_groups(rows: pa.Table, groups: int) -> np.ndarray:
    """int16: the key group of each row."""
    hashes = rows.column(KEY_HASH).to_numpy()
    return np.asarray(np.mod(hashes, groups), np.int16)


def to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_bytes(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _of_data(table: pa.Table) -> pa.Table:
    """The rows that are neither ticks nor late rows on their way, without the columns that mark those."""
    for marker in (TICK, LATE_TABLE):
        if marker in table.column_names:
            column = table.column(marker)
            if column.null_count < len(column):
                table = table.filter(pc.is_null(column))
    return table.drop_columns([name for name in (TICK, LATE_TABLE, LATE) if name in table.column_names])
