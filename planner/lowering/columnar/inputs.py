"""The columns that a kernel reads, computed below it by Catalyst, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType
from sqlglot import exp

from sqlstream.planner.bad_rows import missing_are_null
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.catalog import Column as TableColumn
from sqlstream.planner.fields import Schema
from sqlstream.planner.lowering.context import Context, Places
from sqlstream.planner.lowering.functions import bound_calls
from sqlstream.planner.lowering.hidden_columns import column, hidden_clock, micros, present, quoted
from sqlstream.planner.lowering.time import required_time, time_name, time_of
from sqlstream.planner.node import Node, Unary
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.column_queries import Selection
from sqlstream.planner.physical.steps import BlobWatermark, Operator, Read, SharedRead, read_below
from sqlstream.planner.windows import AlignedWindow
from sqlstream.udfs.column_rows import SelectedRows
from sqlstream.udfs.exchange import CLOCK, FIRED, HOLD, LATE, LATE_TABLE, PARTS, Content, Exchange, part_fields
from sqlstream.udfs.files.parquet import ParquetRows, TableFiles
from sqlstream.udfs.files.records import RecordRows, RequiredValue
from sqlstream.udfs.files.shared import PACKED_DDL, TASK, PackedRows, SharedRows
from sqlstream.udfs.files.shared import ROWS as PACKED
from sqlstream.udfs.files.splits import FILE, FromFile, SplitRows
from sqlstream.udfs.kafka.rows import TopicFormat, TopicRows
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, KEY_HASH, ROW_KIND
from sqlstream.udfs.keys import can_hash
from sqlstream.udfs.lifts import LIFT
from sqlstream.udfs.spark.batches import BLOBS_DDL, packed, shuffle_tasks, to_blobs

TIME = "__row_time"
"""The column of a kernel's input with the time of the row, in microseconds."""


def required_micros(watermark: BlobWatermark, *, passing: bool) -> str:
    """SQL text of a row's event time in microseconds. Evaluating it fails with SS401 for NULL and with SS430 for a time
    out of range.

    ``passing``: some rows belong to side outputs, and have no time.
    """
    passes = f"{LATE_TABLE} IS NOT NULL" if passing else None
    return required_time(time_of(watermark.source), watermark.time, "{error}", micros(watermark.time), passes)


WindowNode = AssignWindows | WindowAggregate

START = "__given_start"
END = "__given_end"


@dataclass(frozen=True)
class InputField:
    """A column of the kernel's input that is a plain field of the operator's input, or, by its own name, an expression
    over it. ``micros``: it is a timestamp, passed as BIGINT microseconds. ``required``: it must not be NULL.
    """

    field: str
    micros: bool = False
    required: bool = False


@dataclass
class Inputs:
    """Collects the columns of a kernel's input: SQL texts by column name, computed from the rows of the operator
    ``below``.

    ``watermark`` is the one that the exchange reports from the rows' times, None without one. ``fields_of`` lists the
    columns that are unchanged fields, and expressions; the exchange can read or compute those without Spark SQL.
    """

    context: Context
    rows: Schema
    below: DataFrame
    watermark: BlobWatermark | None = None
    texts: dict[str, str] = field(default_factory=dict)
    fields_of: dict[str, InputField] = field(default_factory=dict)

    def add(self, expression: exp.Expression, kind: str | None = None, name: str | None = None) -> str:
        """Adds a column for the expression, cast to the SQL type ``kind``, unless an equal one exists. Returns the
        column's name.
        """
        text = self.context.sql(expression, self.below)
        name = self.add_text(text if kind is None else f"CAST({text} AS {kind})", name)
        if kind is None:
            self.fields_of[name] = InputField(expression.name if isinstance(expression, exp.Column) else name)
        return name

    def value(self, expression: exp.Expression, name: str) -> str:
        """Adds a column with the expression's value: under the name of the field if it is a plain field, else as
        ``name``. Returns the name.
        """
        if isinstance(expression, exp.Column):
            for to, given in self.fields_of.items():
                if given.field == expression.name and not given.micros:
                    return to
        return self.add(expression, name=name)

    def field(self, name: str, to: str) -> str:
        """Adds a field unchanged, as the column ``to``. Returns ``to``."""
        self.fields_of[to] = InputField(name)
        return self.add_text(quoted(name), to)

    def add_text(self, text: str, name: str | None = None) -> str:
        if name is None:
            name = next((n for n, t in self.texts.items() if t == text), f"__value_{len(self.texts)}")
        self.texts[name] = text
        return name

    def time(self, name: str, to: str = TIME) -> str:
        """Adds a time field in microseconds, as the column ``to``. Returns ``to``."""
        watermark = self.watermark if self.watermark is not None and self.watermark.time == name else None
        self.fields_of[to] = InputField(name, micros=True, required=watermark is not None)
        return self.add_text(micros(name) if watermark is None else self._required(watermark), to)

    def _required(self, watermark: BlobWatermark) -> str:
        return required_micros(watermark, passing=LATE_TABLE in self.below.columns)

    def fired(self, below: Node, time: str | None) -> None:
        """If the rows are results of windows that processing time fires, adds a column with the time of the firing, so
        that the exchange can report it to the operator.

        ``time`` is the field with that time. For each such time the kernel of a key group is called separately. So only
        windows whose ends many keys share are reported; the results of others arrive with the micro-batch.
        """
        windows = below.window_info
        if windows is None or time is None or windows.time != time or windows.domain is not TimeDomain.PROCESSING:
            return
        if isinstance(windows.window, AlignedWindow) and EMITTED_AHEAD in self.below.columns:
            self.add_text(f"unix_micros({quoted(time)})", FIRED)

    def columns(self, is_own: Column | None = None) -> list[Column]:
        """The columns, ``of_own`` rows."""
        return [of_own(F.expr(text), is_own).alias(name) for name, text in self.texts.items()]


def of_own(value: Column, is_own: Column | None) -> Column:
    """The value for rows that fulfil the condition, or for all without one; it is not computed for others."""
    return value if is_own is None else F.when(is_own, value)


def inputs_of(step: Operator, rows: DataFrame, context: Context) -> Inputs:
    """Starts the input columns of a window kernel. Returns an ``Inputs`` with those columns that every such kernel
    reads: the bounds of windows assigned upstream, and the clock where the windows follow it.
    """
    node = step.node
    assert isinstance(node, WindowNode), node
    inputs = Inputs(context, node.input.schema, rows, step.ports[0].watermark)
    if node.window is None:
        inputs.time(node.columns.start, START)
        inputs.time(node.columns.end, END)
    if node.time is None or node.uses_processing_time:
        inputs.add_text(clock_of(rows), CLOCK)
        inputs.fired(node.input, node.time)
    return inputs


def clock_of(rows: DataFrame) -> str:
    """SQL text of the time at which a row arrived (processing time), in microseconds."""
    return f"unix_micros({quoted(CLOCK)})" if hidden_clock(rows) else "unix_micros(current_timestamp())"


def with_clock(places: DataFrame) -> DataFrame:
    """Files or ranges of messages with the time at which their rows come, as the column CLOCK. Above what reads them it
    would be a constant, another one in each micro-batch, and so code to compile.
    """
    return places.select("*", F.expr(clock_of(places)).alias(CLOCK))


def came_at(rows: DataFrame, context: Context) -> str:
    """SQL text of the processing time at which a row arrived, in microseconds. The time to live of state counts from
    it.

    In tests that move the clock it is 0 for rows without a stamped time, such as the output of another stateful
    operator: there the operator learns the time from ticks.
    """
    return "0L" if context.runtime.steps_clock and not hidden_clock(rows) else clock_of(rows)


_PASSED_ON = (EMITTED_AHEAD, HOLD, BARRIER, LATE_TABLE, LATE, LIFT, *PARTS)


def passed_on(rows: DataFrame) -> list[Column]:
    """The hidden columns of ``rows`` that the exchange sends to the kernel together with the data."""
    return [column(name) for name in present(rows, _PASSED_ON)]


def row_kind() -> Column:
    """The hidden column ROW_KIND, which says for each row whether it is +I, -U, +U or -D. Only inputs with updates have
    it.
    """
    return F.coalesce(column(ROW_KIND), F.lit(RowKind.INSERT.value)).alias(ROW_KIND)


def kinds_of(node: Unary) -> list[Column]:
    """The column ROW_KIND in a list; an empty list if the node's input has insertions only."""
    return [] if node.input.changelog_mode == APPEND_ONLY else [row_kind()]


def key(name: str, kind: DataType) -> Column:
    """Returns a key column in a form in which equal values have identical bytes: -0.0 becomes 0.0, and the entries of
    maps are sorted.
    """
    value = column(name)
    if isinstance(kind, (FloatType, DoubleType)):
        return F.when(value == 0, F.lit(0).cast(kind)).otherwise(value)
    return F.map_from_entries(_entries(value)) if isinstance(kind, MapType) else value


_REWRITTEN = (FloatType, DoubleType, MapType)
"""Types whose equal values may have other bytes."""


def keys_among(rows: DataFrame, names: Sequence[str], fields: Mapping[str, str]) -> tuple[list[Column], dict[str, str]]:
    """Chooses a kernel's key columns. Returns a pair: the columns that must be computed because equal values of their
    type may differ in bytes (see ``key``), and a dictionary from each of ``names`` to its column. ``fields`` maps the
    names to input columns, which serve as keys of all other types.
    """
    computed: list[Column] = []
    keys: dict[str, str] = {}
    for name in names:
        kind = rows.schema[name].dataType
        keys[name] = f"__key_{len(computed)}" if isinstance(kind, _REWRITTEN) else fields[name]
        if keys[name] != fields[name]:
            computed.append(key(name, kind).alias(keys[name]))
    return computed, keys


def _entries(value: Column) -> Column:
    return F.array_sort(F.map_entries(value))


def with_key_hash(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Adds the column KEY_HASH, a 64-bit hash of the key columns, which also determines the key group; constant without
    keys.
    """
    types = rows.schema
    values = (_entries(column(k)) if isinstance(types[k].dataType, MapType) else column(k) for k in keys)
    hashed = F.xxhash64(*values) if keys else F.lit(0).cast("BIGINT")
    return rows.select(hashed.alias(KEY_HASH), "*")


# --- exchanges that read files themselves ---------------------------------------------------------------------


METRIC, ROWS = "files", "rows"
"""The metric of an exchange that reads files: the rows that it has read. The numbers of operator and input and the name
of the table end it."""


@dataclass(frozen=True)
class Files:
    """Files or messages that the tasks of an exchange read themselves, without Spark's reader. ``places`` is a
    DataFrame with one row per file of ``table`` and task, since each task gets the whole list and reads its share, or
    per range of messages; ``reader`` turns such rows into the rows of ``table``, of which the exchange takes what is
    ``selected``; all without it. ``shared``: ``places`` are the rows themselves, read for several readers.
    """

    places: DataFrame
    reader: SplitRows
    table: str
    selected: SelectedRows | None = None
    shared: bool = False

    def blobs(self, exchange: Exchange, number: int) -> DataFrame:
        """Reads the files and divides their rows by key group. Returns a DataFrame of blobs (rows packed as bytes), one
        per key group and batch. It also counts the rows that were read as a metric of the operator with this
        ``number``, because Spark sees only the list of files.
        """
        schema = self.reader.schema if self.selected is None else self.selected.schema
        blobs = self.places.mapInArrow(to_blobs(exchange, schema, self.reader, self.selected), BLOBS_DDL)
        read = f"content = {Content.READ.value}"
        if self.shared:
            return blobs.where(f"NOT {read}")
        counted = F.sum(F.expr(f"IF({read}, clock, 0L)")).alias(ROWS)
        name = f"{METRIC}/{number}/{exchange.port}/{quote(self.table, safe='')}"
        return blobs.observe(name, counted).where(f"NOT {read}")


def hashed_by_exchange(keys: tuple[str, ...], rows: pa.Schema) -> tuple[str, ...]:
    """The keys, if the exchange can compute their hash instead of Spark; empty otherwise.

    A key's state is found by that hash, so both ways must give the same value.
    """
    return keys if all(can_hash(rows.field(name).type) for name in keys) else ()


def files_of(
    step: Operator,
    fields_of: Mapping[str, InputField],
    inputs: Inputs,
    rows: pa.Schema,
    hashed: tuple[str, ...],
    context: Context,
    port: int = 0,
) -> Files | None:
    """Returns the files that the exchange at the input ``port`` of ``step`` reads itself; None if Spark reads them.

    ``fields_of`` maps the input columns that are unchanged fields, keys included, to these fields. ``rows`` is the
    schema of the kernel's input. ``hashed`` are the keys for which the exchange computes KEY_HASH.
    """
    files = step.ports[port].files
    if files is None:
        return None
    rows = rows.remove(rows.get_field_index(KEY_HASH)) if hashed else rows
    taken = {name: fields_of[name] for name in rows.names if name not in (KEY_HASH, CLOCK)}
    scan, read_step = files.scan, read_below(step.inputs[port])
    clock = CLOCK in rows.names or files.reads_clock
    places, parts, _ = places_of(read_step, context, in_order=step.in_order, clock=clock)
    whole = pa.schema([*rows, *(parts if step.in_order else ())])
    if not files.steps:
        columns = {name: _from_file(source, files, inputs) for name, source in taken.items()}
        reader = file_rows(read_step, whole, columns, context)
        return Files(places, reader, scan.table.name, shared=read_step.shared is not None)
    column_of = {name: column for name, column, _ in files.fields}
    times = {column_of[source.field]: time for source in taken.values() if (time := _event_time(source, inputs))}
    columns = {column.name: from_table(column, scan.table, times.get(column.name)) for column in files.columns}
    constants = (f for f in whole if f.name not in taken)
    clocks = [(CLOCK, pa.int64())] if files.reads_clock and CLOCK not in whole.names else []
    read = pa.schema([*((name, column.type) for name, column in columns.items()), *constants, *clocks])
    steps = bound_calls(files.steps, context.runtime)
    selected = SelectedRows(steps, whole, {name: column_of[field.field] for name, field in taken.items()})
    reader = file_rows(read_step, read, columns, context)
    return Files(places, reader, scan.table.name, selected, read_step.shared is not None)


def file_rows(
    read: Read,
    rows: pa.Schema,
    columns: Mapping[str, FromFile],
    context: Context,
    *,
    letters: bool = False,
    required: tuple[RequiredValue, ...] = (),
) -> SplitRows:
    """How tasks read ``rows`` of the ``places_of`` a step: files or messages, with bad records apart (see
    ``RecordRows``), or what has been read for several steps.
    """
    if read.shared is not None:
        checked = {name: replace(column, event_time=None, not_null=None) for name, column in columns.items()}
        return SharedRows(rows, checked, places_of(read, context).lifts)
    records = context.runtime.record_format(read.node)
    if isinstance(records, TopicFormat):
        return TopicRows(rows, columns, records, letters, required)
    if isinstance(records, TableFiles):
        return ParquetRows(rows, columns, stored=records.stored)
    if records is not None:
        return RecordRows(rows, columns, records, apart=True, letters=letters, required=required)
    return ParquetRows(rows, columns, missing_are_null(read.node.table))


def _from_file(source: InputField, files: Selection, inputs: Inputs) -> FromFile:
    column = files.column(source.field)
    assert column is not None, source.field
    return from_file(column, files.scan.table.name, micros=source.micros, event_time=_event_time(source, inputs))


def _event_time(source: InputField, inputs: Inputs) -> str | None:
    """The name of the event time for messages, where a field is the time by which the exchange knows the watermark."""
    return time_of(inputs.watermark.source) if source.required and inputs.watermark is not None else None


def from_table(column: TableColumn, table: Table, event_time: str | None = None) -> FromFile:
    """How tasks read a column of a table as it is. The table's event time is checked, and that of the query's own
    watermark, ``event_time``.
    """
    if event_time is None and table.watermark is not None and table.watermark.column == column.name:
        event_time = time_name(column.name, table.name)
    return from_file(column, table.name, event_time=event_time)


def from_file(column: TableColumn, table: str, *, micros: bool = False, event_time: str | None = None) -> FromFile:
    """How tasks read a column of a table from its files. ``micros`` and ``event_time``: see ``FromFile``."""
    not_null = None if column.nullable else f'column "{column.name}" of table "{table}" is NOT NULL and got NULL'
    return FromFile(column.name, column.type.to_arrow(), micros, event_time, not_null)


# --- files that are read once for several steps -----------------------------------------------------------------
# Their rows go through a shuffle as packed bytes, below which the plans of all readers are equal, so that Spark runs it
# once in a micro-batch (ReusedExchange). Operators with state are not shared like that, because Spark runs each
# branch of a plan on its own (see ``lowering.branches``).


def places_of(read: Read, context: Context, *, in_order: bool = False, clock: bool = False) -> Places:
    """What tasks get for a step that they read: the places of files or messages (``Runtime.places``), with the time if
    ``clock``, or the packed rows of a shared read, the same DataFrame for all its readers.
    """
    if read.shared is None:
        rows = context.runtime.places(read.node, in_order=in_order)
        return Places(with_clock(rows) if clock else rows, _parts(rows))
    if read.shared.number not in context.shared:
        context.shared[read.shared.number] = _packed(read.shared, context)
    return context.shared[read.shared.number]


def _parts(places: DataFrame) -> tuple[pa.Field, ...]:
    """The hidden columns that order rows of files. The messages of a partition are read by one task, in their order."""
    return tuple(part_fields(places.columns)) if FILE in places.columns else ()


def _packed(shared: SharedRead, context: Context) -> Places:
    scan, runtime = shared.scan, context.runtime
    places = runtime.places(scan, in_order=shared.in_order)
    times = {name: time_name(time, table) for name, time, table in shared.times}
    read = [c for c in scan.table.columns if c.name in scan.columns]
    columns = {c.name: from_file(c, scan.table.name, event_time=times.get(c.name)) for c in read}
    parts = _parts(places) if shared.in_order else ()
    schema = pa.schema([*((name, column.type) for name, column in columns.items()), *parts])
    reader = PackedRows(file_rows(Read(scan), schema, columns, context))
    tasks = shuffle_tasks(runtime.spark)
    rows = with_clock(places).mapInArrow(packed(reader, tasks), PACKED_DDL)
    name = f"{METRIC}/shared-{shared.number}/0/{quote(scan.table.name, safe='')}"
    counted = rows.observe(name, F.sum(PACKED).alias(ROWS))
    return Places(counted.repartition(tasks, TASK), parts, reader.reader.lifts)
