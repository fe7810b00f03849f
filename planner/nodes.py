"""Plan nodes: frozen, each with its inputs and a schema.

Every field name is unique within a node's schema, so expressions name fields unqualified: an ``exp.Column`` in a
plan expression is quoted and means the field of the input with exactly that name. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.catalog import Function, Table, TimeDomain
from sqlstream.planner.firing import DEFAULT_FIRING, Firing, PythonCall
from sqlstream.types import TIMESTAMP, DataType
from sqlstream.udfs.barriers.marks import MOST_HELD
from sqlstream.udfs.lookup.options import DEFAULT_LOOKUP, LookupOptions
from sqlstream.udfs.lookup.source import Comparison


@dataclass(frozen=True)
class Field:
    """``time`` marks a time attribute: a column that windows may be built on."""

    name: str
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None


Schema = tuple[Field, ...]


@dataclass(frozen=True)
class Item:
    """A named expression over the fields of the input."""

    name: str
    expression: exp.Expression
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None

    @property
    def field(self) -> Field:
        return Field(self.name, self.type, self.nullable, self.time)


@dataclass(frozen=True)
class Node:
    """Base of all plan nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    def walk(self) -> Iterator[Node]:
        """This node and all below it, top down."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.inputs))


@dataclass(frozen=True)
class Scan(Node):
    """Physical and metadata columns of a table, pruned to ``columns``, filtered by the pushed ``predicates``.

    ``on_error`` says what happens to its bad rows, which no predicate sees.
    """

    table: Table
    columns: tuple[str, ...]
    predicates: tuple[exp.Expression, ...] = ()
    on_error: OnError = FAIL

    @cached_property
    def schema(self) -> Schema:
        by_name = {c.name: c for c in self.table.columns}
        found = (by_name[name] for name in self.columns)
        return tuple(Field(c.name, c.type, c.nullable) for c in found)


@dataclass(frozen=True)
class Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class AssignTime(Unary):
    """Makes ``column`` the time attribute of ``domain`` and its watermark ``max(column) - delay_ms``.

    For PROCESSING and INGESTION the column is added to the schema (the clock at the batch, at the source) and
    ``delay_ms`` is 0. ``table`` names the table whose control rows (end of input, ticks) unite with the rows here.
    """

    column: str
    delay_ms: int
    domain: TimeDomain
    table: str

    @cached_property
    def schema(self) -> Schema:
        marked = Field(self.column, TIMESTAMP, False, self.domain)
        if self.domain is TimeDomain.EVENT:
            return tuple(
                Field(f.name, f.type, False, self.domain) if f.name == self.column else f for f in self.input.schema
            )
        return (*self.input.schema, marked)


@dataclass(frozen=True)
class Project(Unary):
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return tuple(item.field for item in self.items)


@dataclass(frozen=True)
class Filter(Unary):
    condition: exp.Expression


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL; fields by position. The branches are projected to the same names and types."""

    branches: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return self.branches[0].schema


@dataclass(frozen=True)
class Correlate(Unary):
    """For each row the rows of a table function, UNNEST or LATERAL VIEW generator; ``outer`` keeps rows without any.

    ``function`` is a call over the input's fields, or an ``exp.Unnest`` of one expression, whose ``offset`` asks for
    the position, counted from 1, as the last output; ``outputs`` are the fields it adds.
    """

    function: exp.Expression
    outputs: Schema
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *self.outputs)


@dataclass(frozen=True)
class FailedRows:
    """Where rows go whose lookup failed: ``values`` are the physical columns of the table, in order and cast.

    Expressions over the input of the lookup and LOOKUP_ERROR, the STRING that says what went wrong.
    """

    table: Table
    values: tuple[exp.Expression, ...]


LOOKUP_ERROR = "__lookup_error"


@dataclass(frozen=True)
class Lookup(Unary):
    """For each row the rows that a source outside has for its key; ``outer`` keeps rows without any.

    ``source`` is a table with a lookup connector or an asynchronous function. ``keys`` are named by the columns of the
    table (the parameters of the function), with expressions over the input cast to their types; a row with a NULL
    among them finds nothing. ``read`` are the physical columns asked for (the members of the function's row), under
    their own names. ``outputs`` are the fields that are added: expressions over ``read`` alone, NULL where nothing
    was found. ``filters`` compare columns of the table with constants, in the source; ``condition``, over input and
    outputs, is the rest of ON.
    """

    source: Table | Function
    keys: tuple[Item, ...]
    read: Schema
    outputs: tuple[Item, ...]
    outer: bool = False
    filters: tuple[Comparison, ...] = ()
    condition: exp.Expression | None = None
    options: LookupOptions = DEFAULT_LOOKUP
    failed: FailedRows | None = None

    @cached_property
    def schema(self) -> Schema:
        added = (Field(o.name, o.type, self.outer or o.nullable) for o in self.outputs)
        return (*self.input.schema, *added)


@dataclass(frozen=True)
class AlignBarriers(Unary):
    """Rows behind the marker of a barrier on one of ``channels`` channels wait for the markers on all of them.

    ``channel`` and ``id`` are expressions over the input, ``marker``, ``cancel_when`` and ``end_when`` conditions; rows
    that meet one of these, looked at in this order, are marks and do not come out. ``output`` is the field that is
    added: the id of the last barrier aligned before a row. At most ``most_held`` rows may wait.
    """

    channel: exp.Expression
    channels: int
    marker: exp.Expression
    id: exp.Expression
    output: Field
    cancel_when: exp.Expression | None = None
    end_when: exp.Expression | None = None
    at_least_once: bool = False
    timeout_ms: int | None = None
    most_held: int = MOST_HELD

    @property
    def holds(self) -> bool:
        """True where rows wait for the markers of other channels."""
        return not self.at_least_once

    @property
    def expressions(self) -> tuple[exp.Expression, ...]:
        """What it computes of each row."""
        found = (self.channel, self.marker, self.id, self.cancel_when, self.end_when)
        return tuple(e for e in found if e is not None)

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, self.output)


# --- windows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A size or slide that counts rows of a key, where others are milliseconds."""

    count: int


Measure = int | Rows


@dataclass(frozen=True)
class Tumble:
    """``zone`` of this and the next two: windows start on that time zone's wall clock; None for UTC."""

    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Hop:
    slide_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Cumulate:
    step_ms: int
    size_ms: int
    offset_ms: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class Session:
    """Rows of a key less than a gap apart, or touching; a gap per row is an expression of BIGINT milliseconds.

    ``start_when``: the session begins with the first row that meets it, rows before belong to none. ``end_when``: a
    row that meets it is the last of its session. Both are BOOLEAN expressions over the input.
    """

    gap_ms: int | exp.Expression
    max_duration_ms: int | None = None
    start_when: exp.Expression | None = None
    end_when: exp.Expression | None = None


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` rows of a key, every ``slide`` rows; equal where it tumbles.

    The first firing comes after ``slide`` rows, with ``full_only`` after ``size`` rows.
    """

    size: int
    slide: int
    full_only: bool = False


@dataclass(frozen=True)
class RowMeasured:
    """One measure in rows, the other in time.

    Size in rows: the last rows before each multiple of ``slide``, moved by ``offset_ms``. Slide in rows: at every
    ``slide``-th row of a key, the rows in (time - size, time] of that row.
    """

    size: Measure
    slide: Measure
    offset_ms: int = 0


@dataclass(frozen=True)
class GlobalWindow:
    """One window per key, which never closes."""


@dataclass(frozen=True)
class UserWindow:
    """Windows that a Python class assigns."""

    call: PythonCall


AlignedWindow = Tumble | Hop | Cumulate
Window = AlignedWindow | Session | CountWindow | RowMeasured | GlobalWindow | UserWindow


@dataclass(frozen=True)
class WindowColumns:
    """Names of the three fields that a window adds; ``time`` is 1 ms before the end."""

    start: str = "window_start"
    end: str = "window_end"
    time: str = "window_time"

    def fields(self, domain: TimeDomain | None) -> Schema:
        return (
            Field(self.start, TIMESTAMP, False),
            Field(self.end, TIMESTAMP, False),
            Field(self.time, TIMESTAMP, False, domain),
        )


def kind_of_window(window: Window) -> str:
    """``HOP``, ``COUNT WINDOW``: how SQL names windows of this kind."""
    match window:
        case RowMeasured():
            return "HOP"
        case CountWindow():
            return "COUNT WINDOW"
        case GlobalWindow():
            return "GLOBAL WINDOW"
        case UserWindow():
            return "WINDOW USING"
    return type(window).__name__.upper()


def time_of_windows(window: Window | None, domain: TimeDomain) -> TimeDomain | None:
    """What windows can be built on window_time of these windows; None where it says nothing about completeness."""
    return None if isinstance(window, (CountWindow, RowMeasured, GlobalWindow)) else domain


@dataclass(frozen=True)
class AssignWindows(Unary):
    """A window table function: each row once per window that holds it, with the window's columns.

    ``partition_by`` names fields and matters where windows are those of a key: rows of SESSION come out when the
    session closes, those of count and row-measured windows when the window fires. ``time`` None: no row has a time,
    and the clock (``domain`` PROCESSING) gives the bounds of a count window.
    """

    window: Window
    time: str | None
    partition_by: tuple[str, ...]
    columns: WindowColumns = WindowColumns()
    domain: TimeDomain = TimeDomain.EVENT

    @cached_property
    def schema(self) -> Schema:
        plain = tuple(Field(f.name, f.type, f.nullable) for f in self.input.schema)
        return (*plain, *self.columns.fields(time_of_windows(self.window, self.domain)))


@dataclass(frozen=True)
class WindowAggregate(Unary):
    """Aggregates per key and window, emitted when ``firing`` says, by default once, when the window closes.

    Where ``window`` is None the input carries the window ``columns`` already (AssignWindows or another
    WindowAggregate below). Otherwise this node assigns the windows of rows with equal ``keys`` on the field ``time``;
    ``time`` None: the clock gives the bounds (count, global and user-made windows over rows without a time).
    ``keys`` are fields of the input without the window columns; ``grouping_sets`` lists, for GROUPING SETS, the keys
    of each set, and ``grouping_id`` then names an extra BIGINT field with GROUPING_ID over all ``keys`` in order.
    Keys that a set leaves out are NULL in the result; aggregates see them as they are in the input.
    ``aggregates`` are calls of one aggregate function each. ``pane`` and ``pane_index`` name fields with the kind
    (EARLY, ON_TIME, LATE) and number of the firing. Schema: keys, grouping_id, window columns, aggregates, pane,
    pane_index.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Item, ...]
    columns: WindowColumns = WindowColumns()
    window: Window | None = None
    time: str | None = None
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None
    domain: TimeDomain = TimeDomain.EVENT
    firing: Firing = DEFAULT_FIRING
    pane: str | None = None
    pane_index: str | None = None

    @cached_property
    def schema(self) -> Schema:
        by_name = {f.name: f for f in self.input.schema}
        nullable = self.grouping_sets is not None
        keys = tuple(Field(k, by_name[k].type, nullable or by_name[k].nullable) for k in self.keys)
        grouping = (Field(self.grouping_id, DataType("BIGINT"), False),) if self.grouping_id else ()
        window = self.columns.fields(time_of_windows(self.window, self.domain))
        return (*keys, *grouping, *window, *(a.field for a in self.aggregates), *self._panes)

    @property
    def _panes(self) -> Schema:
        kind = (Field(self.pane, DataType("STRING"), False),) if self.pane else ()
        index = (Field(self.pane_index, DataType("BIGINT"), False),) if self.pane_index else ()
        return (*kind, *index)


# --- process functions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProcessInput:
    """A table argument: its rows have the ``fields`` of the table, called ``names``, cast to ``types`` where given.

    ``time`` is the field with the event time of rows, where the call has one; ``passed`` are the fields that come out
    with each row that the function makes.
    """

    parameter: str
    fields: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...] = ()
    partition_by: tuple[str, ...] = ()
    time: str | None = None
    passed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessTable(Node):
    """A process function over tables, row by row (without ``keys``) or by key, with state and timers.

    ``tables`` and ``arguments`` belong together; the keys of all tables have the types of ``keys``. ``constants`` are
    the other arguments, cast; ``descriptors`` are parameters with names of columns. ``passed`` are what the only
    table's passed fields are called, which then stand in place of the keys. ``in_order``: rows by event time.
    ``clock``: the function needs processing time. ``domain`` is that of the times of rows. Schema: keys or passed,
    results, rowtime.
    """

    tables: tuple[Node, ...]
    arguments: tuple[ProcessInput, ...]
    function: str
    uid: str
    results: Schema
    keys: Schema = ()
    passed: Schema = ()
    constants: tuple[Item, ...] = ()
    descriptors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rowtime: Field | None = None
    in_order: bool = False
    clock: bool = False
    domain: TimeDomain = TimeDomain.EVENT

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.tables

    @property
    def timed(self) -> bool:
        """True where the rows have event times."""
        return self.arguments[0].time is not None

    @cached_property
    def schema(self) -> Schema:
        rowtime = (self.rowtime,) if self.rowtime is not None else ()
        return (*(self.passed or self.keys), *self.results, *rowtime)


# --- roots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output(Unary):
    """The root of a query: ``names`` are what the user sees, duplicates allowed, one per field of the input.

    ``functions`` says what happens to rows for which a scalar function raises an exception.
    """

    names: tuple[str, ...]
    functions: OnError = FAIL


@dataclass(frozen=True)
class Insert(Unary):
    """The root of INSERT INTO: the input has exactly the physical columns of ``table``, in order and cast.

    ``functions`` as in Output.
    """

    table: Table
    functions: OnError = FAIL


@dataclass(frozen=True)
class StatementSet(Node):
    """The root of EXECUTE STATEMENT SET: inserts that run as one query, whose micro-batch is one epoch of all tables.

    Several inserts may write to one table. Its schema is empty: rows go to tables, each with columns of its own.
    """

    inserts: tuple[Insert, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inserts

    @cached_property
    def schema(self) -> Schema:
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the inserts, each once, in the order in which they are named first."""
        return tuple({insert.table.name: insert.table for insert in self.inserts}.values())
