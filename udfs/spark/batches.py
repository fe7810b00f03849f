"""The functions of ``mapInArrow`` on either side of the adapter: rows to blobs, and blobs to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from sqlstream.udfs.assigners import Assigner
from sqlstream.udfs.exchange import BLOBS, LATE, LATE_TABLE, Exchange, from_bytes
from sqlstream.udfs.kernel import EMITTED_AHEAD, Context
from sqlstream.udfs.spark.key_groups import numbers_of
from sqlstream.udfs.windows.emission import WINDOW_END, WINDOW_START

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BLOBS_DDL = (
    "key_group INT, partition INT, number INT, content INT, clock BIGINT, late_table STRING, bytes BINARY, parts STRING"
)


def to_blobs(exchange: Exchange, schema: pa.Schema) -> Batches:
    """Rows of ``schema`` to blobs of ``BLOBS_DDL``. Spark's batches differ from it in the names of time zones."""

    numbers = pa.array(numbers_of(exchange.groups))

    def blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        for batch in exchange.blobs((_as(batch, schema) for batch in batches), partition):
            yield batch.set_column(0, BLOBS.field(0), numbers.take(batch.column(0)))

    return blobs


@dataclass(frozen=True)
class Decoder:
    """Blobs of the adapter's output to rows of ``schema``, and hidden columns behind them as far as asked for."""

    schema: pa.Schema
    ahead: bool
    late: bool

    @property
    def hidden(self) -> list[pa.Field]:
        ahead = [pa.field(EMITTED_AHEAD, pa.bool_())] if self.ahead else []
        return ahead + ([pa.field(LATE_TABLE, pa.string()), pa.field(LATE, pa.binary())] if self.late else [])

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.to_pylist():
                if blob["late_table"] is not None:
                    yield self._late(blob["late_table"], blob["bytes"])
                elif blob["bytes"] is not None:
                    yield from self._main(from_bytes(blob["bytes"]), blob["ahead"])

    def _main(self, rows: pa.Table, ahead: bool) -> Iterator[pa.RecordBatch]:
        for batch in rows.cast(self.schema).combine_chunks().to_batches():
            count = batch.num_rows
            flags = [pa.repeat(ahead, count)] if self.ahead else []
            nulls = [pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())] if self.late else []
            yield self._batch([*batch.columns, *flags, *nulls])

    def _late(self, table: str, rows: bytes) -> pa.RecordBatch:
        nulls = [pa.nulls(1, f.type) for f in self.schema]
        flags = [pa.array([False])] if self.ahead else []
        return self._batch([*nulls, *flags, pa.array([table]), pa.array([rows], pa.binary())])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        fields = [*(f.with_nullable(True) for f in self.schema), *self.hidden]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return batch if batch.schema == schema else batch.cast(schema)


@dataclass(frozen=True)
class WindowsOfRows:
    """Rows once per window that holds them, with its bounds behind their columns; late rows on their way pass by."""

    assigner: Assigner

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if LATE_TABLE in batch.schema.names:
                passing = pc.is_valid(batch.column(batch.schema.names.index(LATE_TABLE)))
                late = batch.filter(passing)
                nulls = pa.nulls(late.num_rows, _INSTANT)
                yield _with_bounds(late, nulls, nulls)
                batch = batch.filter(pc.invert(passing))
            no_context = cast(Context, None)  # the times are those of the rows
            found = self.assigner.assign(pa.Table.from_batches([batch]), no_context)
            yield _with_bounds(batch.take(pa.array(found.row)), *(pa.array(t).view(_INSTANT) for t in found[1:]))


_INSTANT = pa.timestamp("us", "UTC")


def _with_bounds(batch: pa.RecordBatch, start: pa.Array, end: pa.Array) -> pa.RecordBatch:
    names = [*batch.schema.names, WINDOW_START, WINDOW_END]
    return pa.RecordBatch.from_arrays([*batch.columns, start, end], names=names)
