"""Rows of source splits that one task reads for several readers: packed as bytes, and unpacked by each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.exchange import CLOCK, from_bytes, gathered, pieces, to_bytes
from sqlstream.udfs.files.splits import SplitRows
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.lifts import LIFT, lift_of

TASK = "task"
"""INT column of packed rows: a number of the task that has read them, by which Spark divides them."""

CONTENT = "content"
"""BINARY column of packed rows: the rows, as an Arrow IPC stream."""

ROWS = "rows"
"""BIGINT column of packed rows: how many they are."""

PACKED_DDL = f"{TASK} INT, {ROWS} BIGINT, {CLOCK} BIGINT, {LIFT} BIGINT, {CONTENT} BINARY"

_PACKED = pa.schema([
    (TASK, pa.int32()), (ROWS, pa.int64()), (CLOCK, pa.int64()), (LIFT, pa.int64()), (CONTENT, pa.binary()),
])  # fmt: skip


@dataclass(frozen=True)
class PackedRows:
    """Reads a task's share of the splits with ``reader``, and packs the rows in their order, in blobs of no more than
    the usual size. The splits have the time at which their rows come, as the column CLOCK; where they have LIFT, which
    may come without rows, the blobs do, too.
    """

    reader: SplitRows

    def packed(self, places: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Yields a batch of packed rows for each blob. ``task``: the number that they get."""
        splits = [batch for batch in places if batch.num_rows]
        clock, lift = splits[0].column(CLOCK)[0].as_py() if splits else None, lift_of(splits)
        if lift is not None:
            yield _pack(task, 0, clock, lift, None)
        for table in gathered(self.reader.rows(iter(splits))):
            for piece in pieces(table):
                yield _pack(task, piece.num_rows, clock, None, to_bytes(piece))


def _pack(*values: object) -> pa.RecordBatch:
    arrays = [pa.array([value], f.type) for value, f in zip(values, _PACKED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_PACKED)


@dataclass(frozen=True)
class SharedRows(SplitRows):
    """Takes the columns of one reader from rows that were packed, and checked, for all. ``lifting``: as ``lifts`` of
    the reader that has read them.
    """

    lifting: bool = False

    @property
    def lifts(self) -> bool:
        return self.lifting

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in places:
            contents = packed.column(CONTENT).drop_null()
            if not len(contents):
                continue
            clock = packed.column(CLOCK)[0].as_py()
            table = pa.concat_tables(from_bytes(content.as_buffer()) for content in contents)
            for rows in table.combine_chunks().to_batches():  # of many rows, each of which is computed upon at once
                yield self.batch(rows, {KEY_HASH: 0, CLOCK: clock}, _checked_before)


def _checked_before(row: int) -> str:
    raise AssertionError("rows are checked where they are read")
