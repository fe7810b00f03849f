"""The functions of ``mapInArrow`` before and after the adapter: rows to blobs, and blobs to rows. Also the packing of
side outputs, and the check of a micro-batch's files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol, cast
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sqlstream.udfs.assigners import Assigner, windows_of_a_row
from sqlstream.udfs.column_rows import SelectedRows
from sqlstream.udfs.exchange import (
    BLOBS,
    HOLD,
    LATE,
    LATE_TABLE,
    Exchange,
    from_bytes,
    gathered,
    pieces,
    to_bytes,
)
from sqlstream.udfs.files.avro import AvroFiles
from sqlstream.udfs.files.columnar import ColumnarFiles
from sqlstream.udfs.files.directories import path_of_url
from sqlstream.udfs.files.listed import FILES, MISSING_METRIC, SIZES, ListedFiles
from sqlstream.udfs.files.shared import PackedRows
from sqlstream.udfs.files.splits import FILE, SplitRows
from sqlstream.udfs.garbage import spare_imports
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, MOST_RESULTS, Context, Kernel
from sqlstream.udfs.lifts import lift_of
from sqlstream.udfs.spark.internals import arrow_schema
from sqlstream.udfs.windows.emission import WINDOW_END, WINDOW_START

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BLOBS_DDL = (
    "key_group INT, partition INT, number INT, content INT, clock BIGINT, late_table STRING, bytes BINARY, "
    "parts STRING, port INT"
)


def to_blobs(
    exchange: Exchange, schema: pa.Schema, files: SplitRows | None = None, selected: SelectedRows | None = None
) -> Batches:
    """Returns a function for ``mapInArrow`` that divides rows of ``schema`` by key group and packs them into blobs:
    rows of ``BLOBS_DDL``, each of which has many input rows as bytes. Spark may use other names of time zones than
    ``schema``.

    ``files``: the input rows of the function are source splits, whose rows it reads; a last blob then reports their
    number to Spark's metrics. ``selected``: which of these rows, and what of them, the exchange takes; Spark learns the
    newest event time of all, or the one that the source says.
    """

    numbers = pa.array(numbers_of(exchange.groups))

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        if files is None:
            yield from exchange.blobs((_as(batch, schema) for batch in batches), partition)
        else:
            places = [*batches]
            rows = _Counted(files.rows(iter(places)), selected, None if files.lifts else exchange.time)
            finds_newest = selected is None and not files.lifts
            yield from (exchange if finds_newest else replace(exchange, time=None)).blobs(rows, partition)
            lift = lift_of(places) if files.lifts and exchange.time is not None else rows.newest
            if lift is not None:
                yield exchange.lift(lift)
            yield exchange.read(rows.count)

    def blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        for batch in found(batches):
            yield batch.set_column(0, BLOBS.field(0), numbers.take(batch.column(0)))

    return blobs


def to_blobs_of_ports(ports: Mapping[str, tuple[Exchange, pa.Schema]]) -> Batches:
    """Returns a function for ``mapInArrow`` that divides rows for several ports like ``to_blobs``. Their first column
    has the place among the ``ports`` of the one that a row is for, or their number, for rows that pass by. ``ports``:
    by the column of structs that are a port's rows, its exchange and the schema of these rows.
    """
    numbers = pa.array(numbers_of(next(iter(ports.values()))[0].groups))

    def blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        in_order = count()
        for table in gathered(batches):
            rows_of = pc.if_else(pc.equal(table.column(0), len(ports)), 0, table.column(0))
            for place, (name, (exchange, schema)) in enumerate(ports.items()):
                own = table.column(name).filter(pc.equal(rows_of, place)).combine_chunks()
                rows = _as(pa.RecordBatch.from_struct_array(own), schema)
                for batch in exchange.blobs([rows], partition, in_order):
                    yield batch.set_column(0, BLOBS.field(0), numbers.take(batch.column(0)))

    return blobs


def packed(rows: PackedRows, tasks: int) -> Batches:
    """Returns a function for ``mapInArrow`` that reads source splits and packs their rows (``PACKED_DDL``). Their
    column TASK divides them by the task that has read them, if Spark hashes it for ``tasks`` partitions.
    """
    numbers = numbers_of(tasks)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        yield from rows.packed(batches, int(numbers[partition % tasks]))

    return pack


class RowsReader(Protocol):
    """Turns batches into others: source splits into their rows, messages into the rows that they hold, ranges of
    offsets into messages, or rows into the files that they are written to.
    """

    def rows(self, batches: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]:
        """The batches that come of a task's batches."""


def rows_of(reader: RowsReader) -> Batches:
    """Returns a function for ``mapInArrow`` that gives the batches of a task to the reader."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        yield from reader.rows(batches)

    return rows


@dataclass
class _Counted:
    """Batches whose rows are counted as they pass, before some of them are ``selected``. ``newest``: the newest of the
    times in the column ``time`` of all rows so far. An exchange of which no rows are filtered finds it itself: then,
    and without a time, it is None.
    """

    batches: Iterator[pa.RecordBatch]
    selected: SelectedRows | None
    time: str | None
    count: int = 0
    newest: int | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.count += batch.num_rows
            if self.selected is None:
                yield batch
                continue
            if self.time is not None:
                times = self.newest, self.selected.newest(batch, self.time)
                self.newest = max((time for time in times if time is not None), default=None)
            rows = self.selected.selected(batch)
            if rows.num_rows:
                yield rows


def to_calls(exchange: Exchange) -> Batches:
    """Returns a function for ``mapInArrow`` that makes one blob (a row of the exchange) for every key group, so that
    all are called in each micro-batch. Its input has ticks of processing time in a single column, or no rows.
    """
    numbers = pa.array(numbers_of(exchange.groups))

    def calls(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        for batch in exchange.calls(batches):
            yield batch.set_column(0, BLOBS.field(0), numbers.take(batch.column(0)))

    return calls


@dataclass(frozen=True)
class Decoder:
    """Unpacks the output of a stateful operator: turns blobs, which have many rows as bytes, into rows of ``schema``,
    followed by the hidden columns that are requested.

    ``kernel`` expands results that it emitted in compact (folded) form. ``ahead``: a hidden column says whether a row
    was emitted before the watermark advanced. ``late``: late rows are emitted, still packed, in hidden columns.
    ``hold``: one row per task reports, in a hidden column, the event time that the watermark of downstream operators
    must not reach.
    """

    schema: pa.Schema
    kernel: Kernel
    ahead: bool
    late: bool
    hold: bool = False

    @property
    def hidden(self) -> list[pa.Field]:
        """The hidden columns of the output."""
        ahead = [pa.field(EMITTED_AHEAD, pa.bool_())] if self.ahead else []
        late = [pa.field(LATE_TABLE, pa.string()), pa.field(LATE, pa.binary())] if self.late else []
        return [*ahead, *([pa.field(HOLD, pa.int64())] if self.hold else []), *late]

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpacks batches of blobs: yields batches of their rows with the hidden columns, and rows in which only hidden
        columns are set, for late rows and for the time that the watermark must not reach.
        """
        spare_imports()
        held: list[int] = []
        for batch in batches:
            for blob in batch.to_pylist():
                if blob["late_table"] is not None:
                    yield self._alone({LATE_TABLE: blob["late_table"], LATE: blob["bytes"]})
                elif blob["bytes"] is not None:
                    rows = from_bytes(blob["bytes"])
                    for piece in self.kernel.unfold(rows) if blob["folded"] else [rows]:
                        yield from self._main(piece, blob["ahead"])
                elif blob["hold"] is not None:
                    held.append(blob["hold"])
        if held and self.hold:
            yield self._alone({HOLD: min(held)})

    def _main(self, rows: pa.Table, ahead: bool) -> Iterator[pa.RecordBatch]:
        for batch in rows.cast(self.schema).combine_chunks().to_batches():
            count = batch.num_rows
            flags = [pa.repeat(ahead, count)] if self.ahead else []
            nulls = [pa.nulls(count, f.type) for f in self.hidden[len(flags) :]]
            yield self._batch([*batch.columns, *flags, *nulls])

    def _alone(self, values: dict[str, object]) -> pa.RecordBatch:
        """A row of hidden columns."""
        values_by_name = {EMITTED_AHEAD: False, **values}
        nulls = [pa.nulls(1, f.type) for f in self.schema]
        return self._batch([*nulls, *(pa.array([values_by_name.get(f.name)], f.type) for f in self.hidden)])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        fields = [*(f.with_nullable(True) for f in self.schema), *self.hidden]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns are the schema's but for names of time zones, and for what may be NULL."""
    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch.cast(schema)


@dataclass(frozen=True)
class WindowsOfRows:
    """Emits each row once per window that contains it, with the bounds of the window as additional columns. Control
    rows bypass the operator."""

    assigner: Assigner

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with the bounds of their windows."""
        spare_imports()
        for batch in batches:
            for marker in (HOLD, LATE_TABLE):
                if marker in batch.schema.names:
                    passing = pc.is_valid(batch.column(marker))
                    passed = batch.filter(passing)
                    nulls = pa.nulls(passed.num_rows, _INSTANT)
                    yield _with_bounds(passed, nulls, nulls)
                    batch = batch.filter(pc.invert(passing))
            yield from self._in_order(batch)

    def _in_order(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows with their windows, with barriers at their positions among the rows."""
        has_barriers = BARRIER in batch.schema.names
        barriers = np.flatnonzero(np.asarray(pc.is_valid(batch.column(BARRIER)))).tolist() if has_barriers else []
        start = 0
        for barrier in barriers:
            yield from self._assigned(batch.slice(start, barrier - start))
            yield _with_bounds(batch.slice(barrier, 1), pa.nulls(1, _INSTANT), pa.nulls(1, _INSTANT))
            start = barrier + 1
        yield from self._assigned(batch.slice(start))

    def _assigned(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """MOST_RESULTS and little more at once."""
        no_context = cast(Context, None)  # event-time assigners do not read it
        size = max(1, MOST_RESULTS // windows_of_a_row(self.assigner))
        for start in range(0, max(batch.num_rows, 1), size):
            rows = batch.slice(start, size)
            assigned = self.assigner.assign(pa.Table.from_batches([rows]), no_context)
            yield _with_bounds(rows.take(pa.array(assigned.row)), *(pa.array(t).view(_INSTANT) for t in assigned[1:]))


_INSTANT = pa.timestamp("us", "UTC")


def _with_bounds(batch: pa.RecordBatch, start: pa.Array, end: pa.Array) -> pa.RecordBatch:
    names = [*batch.schema.names, WINDOW_START, WINDOW_END]
    return pa.RecordBatch.from_arrays([*batch.columns, start, end], names=names)


# --- key group numbers that Spark spreads evenly over its partitions ------------------------------------------
# Spark sends a row to partition ``hash(key) mod partitions``, which for small numbers loads some partitions a third
# more than others. Key group ``g`` of ``n`` therefore gets a number whose hash is ``g mod n``, so that all partitions
# have equally many key groups where ``n`` is a multiple of the number of partitions.


_SEED = 42  # of Spark's hash partitioning


def shuffle_tasks(spark: SparkSession) -> int:
    """So many partitions, and so tasks, the shuffles of this session have."""
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def numbers_of(groups: int) -> np.ndarray:
    """For each of ``groups`` key groups an INT to partition by, such that Spark's hash partitioning distributes the key
    groups evenly over partitions. The result depends only on ``groups``.
    """
    candidates = groups
    while True:
        candidates *= 2
        groups_hit, first = np.unique(murmur3(np.arange(candidates, dtype=np.uint32)) % groups, return_index=True)
        if len(groups_hit) == groups:
            return first.astype(np.int32)


def murmur3(values: np.ndarray) -> np.ndarray:
    """Spark's hash of INT values, which are given as uint32, as int32."""
    k = _rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _rotated(np.uint32(_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)  # bytes
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


# --- side outputs: the rows of a batch as bytes in one row ----------------------------------------------------


@dataclass(frozen=True)
class SideRows:
    """Separates rows that belong to side outputs from the others. ``markers``: pairs of a STRUCT column, which is set
    in rows for a side output and has their content, and the value of LATE_TABLE for that output.

    At most one of these columns is set in a row, and the output lacks them. Rows that already have LATE_TABLE and LATE,
    the packed rows of side outputs, pass unchanged.
    """

    markers: tuple[tuple[str, str], ...]

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that belong to no side output, and rows that have those of a side output packed as bytes."""
        spare_imports()
        for batch in batches:
            kept = batch.drop_columns([name for name, _ in self.markers])
            leaving = [(marker, batch.column(name)) for name, marker in self.markers]
            stays = pa.repeat(True, batch.num_rows)
            for _, structs in leaving:
                stays = pc.and_(stays, pc.is_null(structs))
            yield kept.filter(stays)
            for marker, structs in leaving:
                yield from _packed(kept.schema, marker, structs.drop_null())


def _packed(schema: pa.Schema, marker: str, structs: pa.StructArray) -> Iterator[pa.RecordBatch]:
    if not len(structs):
        return
    for piece in pieces(pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])):
        values = {LATE_TABLE: pa.array([marker]), LATE: pa.array([to_bytes(piece)], pa.binary())}
        columns = [values[f.name] if f.name in values else pa.nulls(1, f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


# --- the files of a micro-batch are checked before their rows are read ----------------------------------------
# Spark skips files that were deleted, and reads NULLs for a column that a Parquet file lacks.


_BATCH_ID = "streaming.sql.batchId"  # of a task; from Spark's MicroBatchExecution
_MISSING, _SIZES = "__missing", "__sizes"
_LOOKED = f"{_MISSING} BIGINT, {_SIZES} STRING"

_numbers = count()


def checked(rows: DataFrame, listed: ListedFiles) -> DataFrame:
    """The ``rows``, which are read only after one task has checked the files of the micro-batch.

    The task runs when Spark has planned the files, from which it omits deleted ones. It is a table of one row with
    which the stream is joined. It is not a source, so the offsets in the checkpoint are those of ``rows``.
    """
    look = rows.sparkSession.range(1, numPartitions=1).mapInArrow(_look_alone(listed), _LOOKED)
    return rows.crossJoin(F.broadcast(_counted(look, listed).select(_MISSING))).drop(_MISSING)


def checked_places(places: DataFrame, listed: ListedFiles, name: str) -> DataFrame:
    """The file splits ``places``, unchanged; the task that has all of them also checks the files of the micro-batch.

    The join of ``checked`` would be another job, some 60 milliseconds. ``name``: the column with the file of a split,
    which is never NULL.
    """
    own = places.schema
    looked = places.mapInArrow(_look_first(listed, arrow_schema(own), name), f"{_ddl(own)}, {_LOOKED}")
    return _counted(looked, listed).where(F.col(name).isNotNull()).drop(_MISSING, _SIZES)


def _ddl(schema: StructType) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)


def _counted(looked: DataFrame, listed: ListedFiles) -> DataFrame:
    name = f"{MISSING_METRIC}/{next(_numbers)}/{quote(listed.table, safe='')}"
    return looked.observe(name, F.sum(_MISSING).alias(FILES), F.max(_SIZES).alias(SIZES))


def _look_alone(listed: ListedFiles) -> Batches:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        looked = _look(listed)
        yield from (looked for _ in batches)

    return look


def _look_first(listed: ListedFiles, own: pa.Schema, name: str) -> Batches:
    """What was seen, as a row without a file, then the rows; not those of files that are gone and may be."""
    seen = pa.schema([(_MISSING, pa.int64()), (_SIZES, pa.string())])

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        looked = _look(listed)
        yield pa.RecordBatch.from_arrays(
            [*(pa.nulls(1, f.type) for f in own), *looked.columns], [*own.names, *seen.names]
        )
        for batch in batches:
            rows = _there(batch, name) if listed.skips else batch
            empty = [pa.nulls(rows.num_rows, f.type) for f in seen]
            yield pa.RecordBatch.from_arrays([*rows.columns, *empty], [*own.names, *seen.names])

    return look


def _there(places: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The places whose files exist: Spark leaves others out, but not where the checkpoint names the file."""
    return places.filter(pa.array([os.path.lexists(path_of_url(url)) for url in places.column(name).to_pylist()]))


def _look(listed: ListedFiles) -> pa.RecordBatch:
    context = TaskContext.get()
    batch = context.getLocalProperty(_BATCH_ID) if context is not None else None
    sizes = listed.sizes(int(batch)) if batch is not None else {}
    missing = listed.count_missing(int(batch)) if batch is not None else 0
    return pa.RecordBatch.from_arrays(
        [pa.array([missing], pa.int64()), pa.array([json.dumps(sizes)])], [_MISSING, _SIZES]
    )


# --- whole files ------------------------------------------------------------------------------------------------

CONTENT = "__content"
"""BINARY column of files that only Spark can open: what is in them."""


def of_files(files: DataFrame, reader: ColumnarFiles | AvroFiles) -> DataFrame:
    """The rows of ``files``, each read whole by one task, with the other columns of the file in each row.

    ``files`` has the URLs of the files in FILE, and their content in CONTENT where tasks cannot open them.
    """
    kept = [field for field in files.schema if field.name not in (FILE, CONTENT)]
    names, own = [field.name for field in kept], reader.schema

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            contents = batch.column(CONTENT) if CONTENT in batch.schema.names else pa.nulls(batch.num_rows)
            for number, (url, content) in enumerate(zip(batch.column(FILE), contents, strict=True)):
                constants = [batch.column(name).slice(number, 1) for name in names]
                for read in reader.batches(path_of_url(url.as_py()), content.as_py()):
                    first = pa.array(np.zeros(read.num_rows, np.int64))
                    columns = [read.column(name) for name in own.names]
                    yield pa.RecordBatch.from_arrays(
                        [*columns, *(value.take(first) for value in constants)], [*own.names, *names]
                    )

    of_file = ", ".join(f"`{name.replace('`', '``')}` {kind.ddl()}" for name, kind in reader.columns)
    return files.mapInArrow(rows, ", ".join(filter(None, (of_file, _ddl(StructType(kept))))))
