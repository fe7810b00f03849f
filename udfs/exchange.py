"""The columnar exchange: cuts Arrow batches into one blob per key group.

A blob is an Arrow IPC stream of rows of one key group and one partition. The order of arrival is the order of
(partition, number of the blob, position in the blob) or, where rows carry their source split (``PARTS``), the order of
the splits. Ticks of processing time and held watermarks are sent to every key group. Barriers are too, at their
position among the rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from itertools import count as counting
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.event_times import END_OF_INPUT
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, KEY_HASH, Kernel
from sqlstream.udfs.keys import hash_of_values
from sqlstream.udfs.lifts import LIFT

TICK = "__tick"
"""BIGINT column of the exchange's input: microseconds of a tick of processing time, NULL for rows of data."""

CLOCK = "__processing_time"
"""BIGINT column of the exchange's input: the processing time at which a row arrived, in microseconds."""

FIRED = "__fired"
"""BIGINT column of the exchange's input: the time at which processing time fired the row below, in microseconds."""

LATE_TABLE = "__late_table"
"""STRING column between operators: the row carries late rows for this table; all operators pass it on unchanged."""

LATE = "__late"
"""BINARY column between operators: the late rows."""

HOLD = "__hold"
"""BIGINT column between operators, in microseconds: an operator below holds the watermark, which must not reach this
time; END_OF_TIME when it stops holding. All other columns are NULL."""

PARTS = ("__part_time", "__part_name", "__part_start")
"""BIGINT, STRING and BIGINT columns of the exchange's input: the place of the file, and of the split of it, that a row
comes from. Spark spreads files over partitions by their size, so partitions say nothing about their order."""


def part_fields(splits: Collection[str]) -> list[pa.Field]:
    """Returns the Arrow fields of the hidden columns PARTS, with which rows of file splits say from where they come:
    time and, perhaps, name of the file, and start of the split. ``splits``: the columns of the DataFrame of splits; it
    has the name only if files with equal times must be distinguished.
    """
    kinds = zip(PARTS, (pa.int64(), pa.string(), pa.int64()), strict=True)
    return [pa.field(name, kind) for name, kind in kinds if name != PARTS[1] or name in splits]


ROWS_PER_CUT = 1 << 19
BYTES_PER_CUT = 1 << 25
"""The limits of rows and bytes that are gathered before they are cut by key group: blobs of few rows cost more than
they carry."""


BYTES_PER_BLOB = 200_000
"""The most that a blob holds, unless one row is larger: Spark hands 100 blobs at once to a worker, at most 20 MB."""


BYTES_PER_BATCH = 1 << 22
"""The number of bytes of blobs per batch: few batches, and no larger blocks of memory than are reused."""


class Content(IntEnum):
    """What a blob contains. A blob is a row that an exchange sends to one key group, usually with many input rows
    packed as bytes.

    AHEAD: rows that were emitted before the watermark advanced. ROWS: other rows. TICK: the current processing time.
    LATE: late rows for a table. HOLD: the event time that the watermark must not reach. LIFT: the newest event time
    that was seen, from which Spark computes its watermark for the next micro-batch. READ: the number of rows that a
    task has read from files, for Spark's metrics. REACHED: as LIFT, but for the key group, so that its kernel knows the
    watermark that follows from the rows of its own micro-batch.
    """

    AHEAD = 0
    ROWS = 1
    TICK = 2
    LATE = 3
    HOLD = 4
    LIFT = 5
    READ = 6
    REACHED = 7


BLOBS = pa.schema(
    [
        ("key_group", pa.int32()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("content", pa.int32()),
        ("clock", pa.int64()),
        ("late_table", pa.string()),
        ("bytes", pa.binary()),
        ("parts", pa.string()),
        ("port", pa.int32()),
    ]
)
"""The schema of blobs. ``clock``: the time of a tick, HOLD, LIFT or REACHED; of rows the processing time at which the
first row arrived, or at which processing time fired rows of AHEAD; of READ the number of rows that a task has read from
files; NULL if unknown, and for a tick that only calls its key group. All times are in microseconds. ``parts``: JSON,
the position of each source split and the number of its rows, in order; NULL if rows have no split. ``port``: the input
port of the kernel."""


class Blob(NamedTuple):
    """A row that an exchange sends to one key group, with the columns of ``BLOBS``; usually many input rows packed as
    bytes.
    """

    key_group: int
    partition: int
    number: int
    content: int
    clock: int | None = None
    late_table: str | None = None
    bytes: bytes | None = None
    parts: str | None = None
    port: int = 0


Filled: TypeAlias = tuple[Blob, pa.Table | None]
"""A blob, and the rows that it is to hold."""

_BYTES = BLOBS.get_field_index("bytes")


@dataclass(frozen=True)
class Exchange:
    """Divides rows into ``groups`` key groups, after the kernel has pre-aggregated them where it can.

    ``time``: the column with the event times that Spark reads from LIFT blobs. ``hashed``: the columns to hash into
    KEY_HASH; without any, rows have that column already (see ``can_hash``). ``port``: the input port of the kernel;
    each port has an exchange, and the blobs of all are united. ``spread``: columns in which NULL equals nothing; rows
    with NULL there may go to any key group and are distributed over all. ``at_once``: the newest event time is also
    sent to every key group.
    """

    kernel: Kernel
    groups: int
    time: str | None = None
    hashed: tuple[str, ...] = ()
    port: int = 0
    spread: tuple[str, ...] = ()
    at_once: bool = False

    def blobs(
        self, batches: Iterable[pa.RecordBatch], partition: int, numbers: Iterator[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Pre-aggregates the input rows of one Spark partition, divides them by key group, and packs them into blobs,
        together with blobs for ticks and held watermarks. Yields batches of schema BLOBS, of about BYTES_PER_BATCH
        each. ``numbers``: of the next blobs of the partition, where other calls make some of them.
        """
        numbers = counting() if numbers is None else numbers
        for table in gathered(batches):
            marks = (self._passing(table), self._holds(table), self._ticks(table), self._lifts(table))
            marked = chain(((blob, None) for blob in chain(*marks)), self._rows(table))
            placed = ((blob._replace(partition=partition, number=next(numbers)), rows) for blob, rows in marked)
            yield from _batches_of(placed)

    def calls(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A batch with one TICK blob for every key group, so that the kernel is called for all of them, even for those
        without rows. The only column of ``batches`` has processing times in microseconds; the blobs carry the newest,
        or NULL if there is none.
        """
        times = (pc.max(batch.column(0)).as_py() for batch in batches)
        newest = max((time for time in times if time is not None), default=None)
        yield _batch_of([*self._to_all(Content.TICK, newest)])

    def lift(self, newest: int) -> pa.RecordBatch:
        """A batch with the blobs that say how new the rows are that a task has read: one for Spark, and, with
        ``at_once``, one for each key group.
        """
        return _batch_of([*self._reaching(newest)])

    def read(self, rows: int) -> pa.RecordBatch:
        """A batch with one blob, with which a task tells Spark's metrics how many rows it has read from files."""
        return _batch_of([Blob(0, 0, 0, Content.READ, rows)])

    def _rows(self, table: pa.Table) -> Iterator[Filled]:
        rows = self._with_hash(_of_data(table))
        if EMITTED_AHEAD in rows.column_names:
            ahead = pc.fill_null(rows.column(EMITTED_AHEAD), False)
            rows = rows.drop_columns([EMITTED_AHEAD])
            for fired, sent in _by_firing(rows.filter(ahead)):
                yield from self._cut(sent, Content.AHEAD, fired)
            rows = _not_fired(rows.filter(pc.invert(ahead)))
        clock = pc.min(rows.column(CLOCK)).as_py() if CLOCK in rows.column_names else None
        yield from self._cut(rows, Content.ROWS, clock)

    def _with_hash(self, rows: pa.Table) -> pa.Table:
        if not self.hashed:
            return rows
        hashes = hash_of_values(rows.select(self.hashed).columns, rows.num_rows)
        for nulls in (np.flatnonzero(rows.column(n).is_null()) for n in self.spread if rows.column(n).null_count):
            hashes[nulls] = nulls
        return rows.add_column(0, KEY_HASH, pa.array(hashes))

    def _cut(self, rows: pa.Table, content: Content, clock: int | None) -> Iterator[Filled]:
        if not rows.num_rows:
            return
        places, parts = zip(*_parts(rows), strict=True)
        combined = [self.kernel.combine(group_rows) for group_rows in parts]
        ends = np.cumsum([group_rows.num_rows for group_rows in combined])
        for group, ordered, group_rows in _cut(united(combined), self.groups):
            for piece in pieces(group_rows):
                here, ordered = ordered[: piece.num_rows], ordered[piece.num_rows :]
                split_counts = _counted(places, ends, here) if places != (_NO_PLACE,) else None
                yield Blob(group, 0, 0, content, clock, parts=split_counts, port=self.port), piece

    def _ticks(self, table: pa.Table) -> Iterator[Blob]:
        """The newest tick, for every key group."""
        if TICK not in table.column_names:
            return
        newest = pc.max(table.column(TICK)).as_py()
        if newest is not None:
            yield from self._to_all(Content.TICK, newest)

    def _holds(self, table: pa.Table) -> Iterator[Blob]:
        """The least time that is held, for every key group."""
        if HOLD not in table.column_names:
            return
        least = pc.min(table.column(HOLD)).as_py()
        if least is not None:
            yield from self._to_all(Content.HOLD, least)

    def _lifts(self, table: pa.Table) -> Iterator[Blob]:
        """The newest event time, of those that move a watermark."""
        newest = newest_time(table.column(self.time)) if self.time is not None else None
        if newest is not None:
            yield from self._reaching(newest)

    def _reaching(self, newest: int) -> Iterator[Blob]:
        yield Blob(0, 0, 0, Content.LIFT, newest)
        if self.at_once:
            yield from self._to_all(Content.REACHED, newest)

    def _to_all(self, content: Content, clock: int | None) -> Iterator[Blob]:
        """A blob for every key group."""
        return (Blob(group, 0, 0, content, clock) for group in range(self.groups))

    def _passing(self, table: pa.Table) -> Iterator[Blob]:
        if LATE_TABLE not in table.column_names:
            return
        late = table.filter(pc.is_valid(table.column(LATE_TABLE)))
        for name, rows in zip(late.column(LATE_TABLE).to_pylist(), late.column(LATE).to_pylist(), strict=True):
            yield Blob(0, 0, 0, Content.LATE, None, name, rows)


def _by_firing(rows: pa.Table) -> Iterator[tuple[int | None, pa.Table]]:
    """Rows apart by when processing time fired them, in that order; None and all, where they do not say."""
    if FIRED not in rows.column_names:
        yield None, rows
        return
    times = rows.column(FIRED)
    for time in sorted(times.unique().to_pylist()):
        yield time, _not_fired(rows.filter(pc.equal(times, time)))


def _not_fired(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([FIRED]) if FIRED in rows.column_names else rows


def newest_time(times: pa.ChunkedArray | pa.Array) -> int | None:
    """The newest of some times in microseconds, without control rows of the end of input; None if there is none."""
    newest: int | None = pc.max(times).as_py()
    if newest is not None and newest >= END_OF_INPUT:
        newest = pc.max(times.filter(pc.less(times, END_OF_INPUT))).as_py()
    return newest


def _batch_of(blobs: Sequence[Blob], contents: pa.Array | None = None) -> pa.RecordBatch:
    """``contents``: the bytes of the blobs, where they do not have them themselves."""
    arrays = [pa.array(column, f.type) for column, f in zip(zip(*blobs, strict=True), BLOBS, strict=True)]
    if contents is not None:
        arrays[_BYTES] = contents
    return pa.RecordBatch.from_arrays(arrays, schema=BLOBS)


def _batches_of(filled: Iterable[Filled]) -> Iterator[pa.RecordBatch]:
    """Writes rows directly into the bytes of the column of all blobs of a batch, because copying them would cost as
    much as cutting. The system provides large columns with new pages each time, which would cost as much again."""
    blobs: list[Blob] = []
    contents = _Contents()
    for blob, rows in filled:
        blobs.append(blob)
        contents.add(blob.bytes if rows is None else rows)
        if contents.size >= BYTES_PER_BATCH:
            yield _batch_of(blobs, contents.column())
            blobs, contents = [], _Contents()
    if blobs:
        yield _batch_of(blobs, contents.column())


class _Contents:
    """The column with the bytes of some blobs, while it is written."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._ends = [0]
        self._filled: list[bool] = []

    def add(self, content: pa.Table | bytes | None) -> None:
        if isinstance(content, pa.Table):
            _write(content, self._sink)
        elif content is not None:
            self._sink.write(content)
        self._filled.append(content is not None)
        self._ends.append(self.size)

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def column(self) -> pa.Array:
        _, valid = pa.array(self._filled).buffers()
        ends = pa.py_buffer(np.array(self._ends, np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self._filled), [valid, ends, self._sink.getvalue()])


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Concatenates small batches to tables of about ROWS_PER_CUT rows or BYTES_PER_CUT bytes. Each column of a table is
    one chunk.
    """
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


def united(combined: Sequence[pa.Table]) -> pa.Table:
    """The results of several calls of ``Kernel.combine`` as one table. Columns that some of them leave out are NULL in
    their rows.
    """
    return pa.concat_tables(combined, promote_options="default") if len(combined) > 1 else combined[0]


def cut(rows: pa.Table, groups: int) -> Iterator[tuple[int, pa.Table]]:
    """Divides rows by key group: yields a pair of the key group's number and its rows, in order of arrival, for each
    key group that has rows.
    """
    yield from ((group, group_rows) for group, _, group_rows in _cut(rows, groups))


def _cut(rows: pa.Table, groups: int) -> Iterator[tuple[int, np.ndarray, pa.Table]]:
    """As ``cut``, with the indices of the rows that each key group gets."""
    if not rows.num_rows:
        return
    if groups == 1:
        yield 0, np.arange(rows.num_rows), rows
        return
    order, ends = _by_group(rows, groups)
    ordered = rows.take(pa.array(order))
    start = 0
    for group, end in enumerate(ends.tolist()):
        if end > start:
            yield group, order[start:end], ordered.slice(start, end - start)
        start = end


def _by_group(rows: pa.Table, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The row numbers of all groups, concatenated, and the end of each group. Barriers belong to all groups."""
    group_of = key_groups(rows, groups)
    order = np.argsort(group_of, kind="stable")  # a radix sort, for integers of 16 bits
    if BARRIER in rows.column_names:
        is_barrier = np.asarray(rows.column(BARRIER).is_valid())
        barriers, others = np.flatnonzero(is_barrier), np.flatnonzero(~is_barrier)
        number = np.concatenate([others, np.repeat(barriers, groups)])
        group_of = np.concatenate([group_of[others], np.tile(np.arange(groups, dtype=np.int16), len(barriers))])
        in_order = np.lexsort((number, group_of))
        order = number[in_order]
    return order, np.cumsum(np.bincount(group_of, minlength=groups))


# --- source splits --------------------------------------------------------------------------------------

SplitPosition = tuple[int | None, str | None, int | None]
"""Values of PARTS."""

_NO_PLACE: SplitPosition = (None, None, None)


def rows_in_order(blobs: Iterable[Blob]) -> list[pa.Table]:
    """Unpacks blobs: returns their rows as a list of tables, in order of arrival. The blobs must be sorted by their
    fields ``partition`` and ``number``.
    """
    pieces_by_blob = (_pieces(from_bytes(blob.bytes), blob.parts) for blob in blobs if blob.bytes is not None)
    pieces = [piece for of_blob in pieces_by_blob for piece in of_blob]
    return [rows for _, rows in sorted(pieces, key=lambda piece: _rank(piece[0]))]


def _rank(split_place: SplitPosition) -> tuple[bool, int, str, int]:
    time, name, start = split_place
    return time is not None, time or 0, name or "", start or 0


def _pieces(rows: pa.Table, parts: str | None) -> Iterator[tuple[SplitPosition, pa.Table]]:
    if parts is None:
        yield _NO_PLACE, rows
        return
    start = 0
    for time, name, first, count in json.loads(parts):
        yield (time, name, first), rows.slice(start, count)
        start += count


def _parts(rows: pa.Table) -> Iterator[tuple[SplitPosition, pa.Table]]:
    """The rows by split, in order, without the columns that identify the split."""
    split_columns = [name for name in PARTS if name in rows.column_names]
    plain = rows.drop_columns(split_columns)
    if not split_columns:
        yield _NO_PLACE, plain
        return
    columns = [rows.column(name).combine_chunks() for name in split_columns]
    ends = np.unique(np.concatenate([pc.run_end_encode(column).run_ends.to_numpy() for column in columns]))
    start = 0
    for end in ends.tolist():
        values = {name: column[start].as_py() for name, column in zip(split_columns, columns, strict=True)}
        time, name, first = (values.get(name) for name in PARTS)
        yield (time, name, first), plain.slice(start, end - start)
        start = end


def _counted(positions: Sequence[SplitPosition], ends: np.ndarray, row_indices: np.ndarray) -> str:
    """The number of rows of each split in a blob as JSON. ``ends``: the ends of the splits among all rows;
    ``row_indices``: the rows of the blob."""
    if len(positions) == 1:
        return json.dumps([(*positions[0], len(row_indices))])
    counts = np.diff(np.searchsorted(row_indices, ends), prepend=0).tolist()
    return json.dumps([(*position, count) for position, count in zip(positions, counts, strict=True) if count])


def pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Cuts a table into consecutive tables of about BYTES_PER_BLOB bytes; yields nothing for a table without rows."""
    if not rows.num_rows:
        return
    count = min(-(-rows.nbytes // BYTES_PER_BLOB), rows.num_rows) or 1
    size = -(-rows.num_rows // count)
    yield from (rows.slice(start, size) for start in range(0, rows.num_rows, size))


def key_groups(rows: pa.Table, groups: int) -> np.ndarray:
    """The key group of each row, as an int16 array."""
    hashes = rows.column(KEY_HASH).to_numpy()
    if groups & (groups - 1) == 0:  # a power of two: the low bits, ten times faster
        return np.asarray(hashes.astype(np.int16) & (groups - 1), np.int16)
    return np.asarray(np.mod(hashes, groups), np.int16)


def to_bytes(rows: pa.Table) -> bytes:
    """The table as bytes, in the format of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    _write(rows, sink)
    return bytes(sink.getvalue())


def _write(rows: pa.Table, sink: pa.BufferOutputStream) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def from_bytes(blob: bytes | pa.Buffer) -> pa.Table:
    """The rows of an Arrow IPC stream; they share memory with the bytes."""
    return pa.ipc.open_stream(blob).read_all()


def _of_data(table: pa.Table) -> pa.Table:
    """The rows of data, without the columns that mark ticks, holds and late rows on their way, and lifts."""
    for marker in (TICK, HOLD, LATE_TABLE):
        if marker in table.column_names:
            column = table.column(marker)
            if column.null_count < len(column):
                table = table.filter(pc.is_null(column))
    return table.drop_columns([name for name in (TICK, HOLD, LATE_TABLE, LATE, LIFT) if name in table.column_names])


# --- chained operators: rows are handed over without an exchange ----------------------------------------------
# Both operators have the same keys and so the same key groups: nothing is cut or sent. Columns pass unchanged, or as
# microseconds.


@dataclass(frozen=True)
class Handed:
    """Where a chained operator takes one of its input columns from: the output ``column`` of the upstream operator, to
    which it is chained without an exchange.

    ``earlier``: the number of microseconds to subtract, for a time. ``micros``: a timestamp is converted to BIGINT
    microseconds.
    """

    column: str
    earlier: int = 0
    micros: bool = False


@dataclass(frozen=True)
class Handover:
    """How a chained operator takes the output rows of the upstream operator, without an exchange.

    ``columns`` maps the names of its input columns to upstream columns, ``keys`` are the key columns; ``schema`` is
    that of its input, including KEY_HASH. Columns that are not listed are NULL, such as a clock that no operator reads.
    """

    columns: tuple[tuple[str, Handed], ...]
    keys: tuple[str, ...]
    schema: pa.Schema

    def rows(self, emitted: Sequence[pa.Table]) -> pa.Table:
        """Concatenates the tables that the upstream operator emitted, in order, to one input table of the chained
        operator, with its columns and KEY_HASH.
        """
        below = pa.concat_tables(emitted).combine_chunks()
        tables = {name: _taken(below, handed, self.schema.field(name).type) for name, handed in self.columns}
        tables[KEY_HASH] = pa.array(hash_of_values([tables[name] for name in self.keys], below.num_rows))
        columns = [tables[f.name] if f.name in tables else pa.nulls(below.num_rows, f.type) for f in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _taken(below: pa.Table, handed: Handed, kind: pa.DataType) -> pa.ChunkedArray:
    column = below.column(handed.column)
    if handed.earlier:
        column = pc.subtract(column, pa.scalar(np.timedelta64(handed.earlier, "us")))
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()) if handed.micros else column.cast(kind)
