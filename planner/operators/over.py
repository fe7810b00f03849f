"""OVER aggregation: each row with functions over the rows around it, in order of time or, as a changelog, in any
order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.aggregate_calls import values_read_by
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import Field, FieldNames, Item, Provenance, Schema, fields_fact, keys_fact, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, WindowInfo, expiry_text
from sqlstream.planner.windows import Hop, Tumble
from sqlstream.udfs.over.frames import Frame

NUMBERS = frozenset({"row_number", "rank", "dense_rank"})
SHIFTS = frozenset({"lag", "lead"})
NTH = "nth_value"
PLACES = frozenset({"ntile", "percent_rank", "cume_dist"})
"""Functions of the place of a row among all rows of its key, which are final only when the key has all of these."""

_POSITIONAL = NUMBERS | SHIFTS | PLACES | {NTH}


@dataclass(frozen=True)
class OverCall:
    """One call with OVER: ``item`` is the call with the name of its result, ``frame`` the rows that it reads. The
    offsets of a RANGE frame over times are in milliseconds.

    The call is an aggregate, or a function that reads rows by their position: ROW_NUMBER, RANK, LAG, NTILE, NTH_VALUE
    and the like. Such functions have no frame, except NTH_VALUE. They are sqlglot's ``Anonymous`` nodes, inside
    ``IgnoreNulls`` where NULLs are not counted.
    """

    item: Item
    frame: Frame | None

    @property
    def positional(self) -> exp.Anonymous | None:
        """The call, without IGNORE NULLS, if its function reads rows by their position: ROW_NUMBER, LAG, NTILE,
        NTH_VALUE and the like. None for aggregates.
        """
        call = self.item.expression
        inner = call.this if isinstance(call, exp.IgnoreNulls) else call
        return inner if isinstance(inner, exp.Anonymous) and inner.name in _POSITIONAL else None

    @property
    def ignores_nulls(self) -> bool:
        """True where a positional call does not count rows whose value is NULL."""
        return isinstance(self.item.expression, exp.IgnoreNulls) and self.positional is not None


@dataclass(frozen=True)
class Closing:
    """When a row's window closes: ``after_ms`` milliseconds after the time in the field ``field``."""

    field: str
    after_ms: int


def closing_of(info: WindowInfo, keys: Iterable[str]) -> Closing | None:
    """When the window of a row closes, by one of the fields ``keys``: the window's time, end or start. None if no key
    is such a field, or if it is the start of a window without a fixed size.
    """
    size_ms = info.window.size_ms if isinstance(info.window, Tumble | Hop) else None
    for field, after_ms in ((info.time, 0), (info.end, -1), (info.start, None if size_ms is None else size_ms - 1)):
        if field is not None and field in keys and after_ms is not None:
            return Closing(field, after_ms)
    return None


@dataclass(frozen=True)
class Sorted:
    """A column of ORDER BY: the field ``name``, its direction, and the position of NULLs. In ``ties`` of an operator it
    orders rows of equal time.
    """

    name: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Over(Unary):
    """OVER in order of time: adds to each row the results of ``calls`` over the rows with equal ``keys``.

    In event time a row is emitted when the watermark says that its frames are complete; rows older than the watermark
    are late, and dropped. In processing time it is emitted at once. ``ties`` order rows of the same time. ``passed``:
    the fields of the input that operators above read; None: all. Schema: these fields, then the calls.
    """

    keys: tuple[str, ...]
    time: str
    calls: tuple[OverCall, ...]
    domain: TimeDomain = TimeDomain.EVENT
    ties: tuple[Sorted, ...] = ()
    passed: tuple[str, ...] | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.of_input, *self.results)

    @property
    def of_input(self) -> Schema:
        """The fields of the input that are also in the result."""
        fields = self.input.schema
        return fields if self.passed is None else tuple(field for field in fields if field.name in self.passed)

    @property
    def results(self) -> tuple[Field, ...]:
        """The fields that hold the results of the calls."""
        return tuple(call.item.field for call in self.calls)

    @property
    def aggregate_items(self) -> tuple[Item, ...]:
        return tuple(call.item for call in self.calls if call.positional is None)

    @property
    def read(self) -> frozenset[str]:
        """The input fields that order, keys and functions read."""
        read = frozenset().union(*(columns_of(call.item.expression) for call in self.calls))
        return read | {*self.keys, self.time, *(tie.name for tie in self.ties)}

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def is_batch_invariant(self) -> bool:
        return self.domain is TimeDomain.EVENT

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({self.domain}) if self.domain is TimeDomain.EVENT else frozenset()

    @property
    def uses_processing_time(self) -> bool:
        """True in processing time if a frame is limited by time, because its rows then expire by the clock."""
        in_time = any(c.frame is not None and c.frame.time_before for c in self.calls)
        return self.domain is TimeDomain.PROCESSING and in_time

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        names = {field.name for field in self.of_input}
        return frozenset(key for key in self.input.unique_keys if key <= names)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- changes ----------------------------------------------------------------------------------------------

    # Rows are emitted when they can no longer change.
    changelog_mode = APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS if self.domain is TimeDomain.EVENT else APPEND_ONLY

    prefers_inserts = True

    @property
    def why_inserts_only(self) -> str | None:
        return "a row does not go at the time at which it came" if self.domain is TimeDomain.PROCESSING else None

    consumer_name = "OVER"

    # --- rules ------------------------------------------------------------------------------------------------

    removed_if_unread = True

    def pruned(self, required: FieldNames) -> Node:
        calls = tuple(call for call in self.calls if call.item.name in required)
        if not calls:
            return self.input.pruned(required)
        above = required - {field.name for field in self.results}
        kept = replace(self, calls=calls)
        below = self.input.pruned(above | kept.read)
        passed = tuple(field.name for field in below.schema if field.name in above)
        return replace(kept, input=below, passed=None if len(passed) == len(below.schema) else passed)

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A filter on other fields would remove rows from the frames of other rows.
        """
        return bool(read) and read <= set(self.keys)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {self.time}

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        keys = [f"keys {', '.join(self.keys)}"] if self.keys else []
        order = ", ".join([self.time, *map(sorted_text, self.ties)])
        return f"Over({'; '.join([*keys, f'order {order}', *map(call_text, self.calls)])})"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def watermark_field(self, port: int = 0) -> str | None:
        return self.time if self.domain is TimeDomain.EVENT else None

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        read = [value for call in self.calls for value in arguments_of(call)]
        if self.domain is TimeDomain.PROCESSING or not all(isinstance(value, exp.Column) for value in read):
            return None
        return FieldsRead(tuple(field.name for field in self.input.schema), self.keys, self.time)

    columnar_only_clause = "OVER"

    kernel_text = "of rows in order of time"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {**below, **{call.item.name: f"{traced(call.item.expression, below)} OVER" for call in self.calls}}

    state_title = ("OVER", "OVER")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        yield "time", names[self.time]
        yield "kind of time", self.domain.value
        yield "functions", ", ".join(function_text(call, names) for call in self.calls)
        yield (
            "order of rows of one time",
            ", ".join(sorted_text(replace(t, name=names[t.name])) for t in self.ties) or "as they come",
        )
        yield "columns", fields_fact(self.of_input, names)
        if self.input.changelog_mode != APPEND_ONLY:
            yield "rows", "come and go"

    def state_descriptions(self) -> Iterator[StateDescription]:
        """What is stored: for frames limited by time their rows, which expire; otherwise rows or totals per key, which
        do not expire.
        """
        frames = [call.frame for call in self.calls]
        if all(frame is not None and not frame.rows and not frame.unbounded for frame in frames):
            yield StateDescription("the rows of frames", "the watermark passes all frames that hold them")
            return
        if self.domain is TimeDomain.EVENT:
            yield StateDescription("rows that wait for their turn", "the watermark passes them")
        yield StateDescription("the last rows and totals of each key", None if self.keys else "there is one key")


def sorted_text(tie: Sorted) -> str:
    """A column of ORDER BY as SQL."""
    default = tie.nulls_first is not tie.descending
    nulls = "" if default else f" NULLS {'FIRST' if tie.nulls_first else 'LAST'}"
    return f"{tie.name}{' DESC' if tie.descending else ''}{nulls}"


def call_text(call: OverCall, in_time: bool = True) -> str:
    """The call as SQL: ``SUM(v) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW AS s``. ``in_time``: distances of a RANGE
    frame are milliseconds and shown as intervals.
    """
    frame = f" {frame_text(call.frame, in_time)}" if call.frame is not None else ""
    return f"{sql(call.item.expression)}{frame} AS {call.item.name}"


def frame_text(frame: Frame, in_time: bool = True) -> str:
    """The frame of OVER as SQL. ``in_time``: distances of RANGE are milliseconds and shown as intervals."""
    kind, counts = ("ROWS", True) if frame.rows else ("RANGE", not in_time)
    start = "UNBOUNDED PRECEDING" if frame.start is None else _bound(frame.start, counts)
    end = "UNBOUNDED FOLLOWING" if frame.end is None else _bound(frame.end, counts)
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(offset: int, counts: bool) -> str:
    if offset == 0:
        return "CURRENT ROW"
    distance = str(abs(offset)) if counts else readable(abs(offset))
    return f"{distance} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def arguments_of(call: OverCall) -> Iterator[exp.Expression]:
    """The arguments of a call that are read from rows: the value and a default, not an offset."""
    positional = call.positional
    if positional is None:
        yield from values_read_by(call.item)
    elif positional.name not in PLACES:  # the argument of NTILE is a constant
        yield from (*positional.expressions[:1], *positional.expressions[2:])


def function_text(call: OverCall, names: Provenance, in_time: bool = True) -> str:
    """The call as text for a checkpoint's fingerprint, without the parts that do not change its results."""
    frame = f" {frame_text(call.frame, in_time)}" if call.frame is not None else ""
    return f"{traced(call.item.expression, names)}{frame}"


# --- OVER in any order: results are updated as the rows of the key change -------------------------------------


_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


@dataclass(frozen=True)
class OverAllRows(Unary):
    """Base of OVER functions that need all rows of a key before they are final.

    Adds to each row the results of ``calls`` over the rows with equal ``keys`` in the ``order``; without an order all
    of these are peers. Schema: that of the input, then the calls.
    """

    keys: tuple[str, ...]
    order: tuple[Sorted, ...]
    calls: tuple[OverCall, ...]

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *self.results)

    @property
    def results(self) -> tuple[Field, ...]:
        """The fields that hold the results of the calls."""
        return tuple(call.item.field for call in self.calls)

    @property
    def aggregate_items(self) -> tuple[Item, ...]:
        return tuple(call.item for call in self.calls if call.positional is None)

    @property
    def in_time(self) -> bool:
        """True if the column of ORDER BY is a time, so that distances of RANGE are intervals."""
        types = {field.name: field.type.name for field in self.input.schema}
        return len(self.order) == 1 and types[self.order[0].name] in _TIMES

    @property
    def read(self) -> frozenset[str]:
        """The input fields that order, keys and functions read."""
        read = frozenset().union(*(columns_of(call.item.expression) for call in self.calls))
        return read | {*self.keys, *(key.name for key in self.order)}

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    # --- rules ------------------------------------------------------------------------------------------------

    removed_if_unread = True

    def pruned(self, required: FieldNames) -> Node:
        calls = tuple(call for call in self.calls if call.item.name in required)
        if not calls:
            return self.input.pruned(required)
        kept = replace(self, calls=calls)
        below = (required - {field.name for field in self.results}) | kept.read
        return replace(kept, input=self.input.pruned(below))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A filter on other fields would remove rows from the frames of other rows.
        """
        return bool(read) and read <= set(self.keys)

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"keys {', '.join(self.keys)}"] if self.keys else []
        parts += [f"order {', '.join(map(sorted_text, self.order))}"] if self.order else []
        parts += [call_text(call, self.in_time) for call in self.calls]
        return f"{type(self).__name__}({'; '.join([*parts, *self._terms])})"

    @property
    def _terms(self) -> list[str]:
        """What else the operator says of itself."""
        return []

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    columnar_only_clause = "OVER"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {**below, **{call.item.name: f"{traced(call.item.expression, below)} OVER" for call in self.calls}}

    state_title = ("OVER", "OVER")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        order = (sorted_text(replace(key, name=names[key.name])) for key in self.order)
        yield "order", ", ".join(order) or "as rows come"
        yield "functions", ", ".join(function_text(call, names, self.in_time) for call in self.calls)
        yield "columns", self.input.rows_fact


@dataclass(frozen=True)
class UpdatingOver(OverAllRows):
    """OVER that emits each row at once, and again when other rows change its results.

    ``ttl_ms``: the state of a key expires this many milliseconds of processing time after its last change; 0: never. No
    field of the schema is a time attribute.
    """

    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        return (*(replace(field, time=None) for field in self.input.schema), *self.results)

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        return ALL_KINDS - {RowKind.DELETE} if self.input.changelog_mode == APPEND_ONLY else ALL_KINDS

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """All kinds of rows. Insertions only if a processing time is read, because a retraction does not say when its
        row arrived.
        """
        by_arrival = any(f.time is TimeDomain.PROCESSING for f in self.input.schema if f.name in self.read)
        return APPEND_ONLY if by_arrival else ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Each unique key of the input together with the keys of OVER. All changes of a row with such a key are emitted
        by one key group, so they are in order.
        """
        return frozenset(key | set(self.keys) for key in self.input.unique_keys)

    consumer_name = "OVER in the order of processing time"

    producer_name = "OVER in another order than that of time"

    # --- texts ------------------------------------------------------------------------------------------------

    @property
    def _terms(self) -> list[str]:
        return [f"forgets keys after {readable(self.ttl_ms)}"] if self.ttl_ms else []

    kernel_text = "of all rows of each key, which are computed anew where one changes"

    # --- what runs --------------------------------------------------------------------------------------------

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        read = [value for call in self.calls for value in arguments_of(call)]
        if not all(isinstance(value, exp.Column) for value in read):
            return None
        return FieldsRead(tuple(field.name for field in self.input.schema), self.keys)

    # --- state ------------------------------------------------------------------------------------------------

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from super().state_facts()
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("all rows of each key", expiry_text(self.ttl_ms, "the last change of the key"))


@dataclass(frozen=True)
class WindowOver(OverAllRows):
    """OVER whose ``keys`` contain an event-time window: rows are emitted once, when the watermark closes the window, as
    ``closes`` says. Rows that arrive later are dropped. The only time attribute of the result is that of the window,
    because the watermark has passed all others.
    """

    closes: Closing

    @cached_property
    def schema(self) -> Schema:
        window = self.input.window_info
        kept = window.time if window is not None else None
        fields = (f if f.name == kept else replace(f, time=None) for f in self.input.schema)
        return (*fields, *self.results)

    @property
    def read(self) -> frozenset[str]:
        """The input fields that order, keys, functions and the window read."""
        return super().read | {self.closes.field}

    # --- properties -------------------------------------------------------------------------------------------

    is_batch_invariant = True
    awaited_domains = frozenset({TimeDomain.EVENT})

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- changes ----------------------------------------------------------------------------------------------

    # Rows are emitted when they can no longer change.
    changelog_mode = APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return APPEND_ONLY

    consumer_name = "OVER in windows"

    # --- rules ------------------------------------------------------------------------------------------------

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | {self.closes.field}

    # --- texts ------------------------------------------------------------------------------------------------

    @property
    def _terms(self) -> list[str]:
        return ["when windows close"]

    kernel_text = "of the rows of open windows"

    # --- what runs --------------------------------------------------------------------------------------------

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """None: the exchange cannot read the fields from files itself, because Spark must compute the time at which the
        window closes.
        """
        return None

    # --- state ------------------------------------------------------------------------------------------------

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from super().state_facts()
        yield "rows come out", "when windows close"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("all rows of each window", "the watermark passes the window")
