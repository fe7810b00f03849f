"""Aggregates per key and window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.aggregate_calls import (
    fields_read_by,
    lists_in_arrival_order,
    reads_plain_column,
    sees_order,
    sees_ties,
    types_of_aggregate,
)
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import (
    Field,
    FieldNames,
    Item,
    Provenance,
    Schema,
    is_qualified_by_tables,
    keys_fact,
    traced,
)
from sqlstream.planner.firing import (
    DEFAULT_FIRING,
    Accumulation,
    AfterProcessingTime,
    AfterWatermark,
    Delta,
    EvictDelta,
    Firing,
    LateAction,
    LateData,
    UserEvictor,
    UserTrigger,
    When,
    simple_triggers,
)
from sqlstream.planner.node import Link, Node, cached_per_node
from sqlstream.planner.nodes import Project, below_projections
from sqlstream.planner.operators.windows import (
    AssignWindows,
    Windowed,
    WindowKernelKind,
    columns_text,
    provenance_of_columns,
    reads_window,
    text_of,
    window_state_descriptions,
    windows_on_top,
)
from sqlstream.planner.properties import (
    ArrivalOrder,
    FieldsRead,
    Keys,
    Kinds,
    Remark,
    ShownNames,
    StateDescription,
    Topic,
    WindowInfo,
)
from sqlstream.planner.windows import (
    CLOSES_AT_ONCE,
    DEFAULT_COLUMNS,
    AlignedWindow,
    CountWindow,
    GlobalWindow,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    Window,
    WindowColumns,
)
from sqlstream.types import DataType

HASHED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING",
                     "BINARY", "DATE", "TIMESTAMP"})  # fmt: skip
"""Types of keys that ``udfs.keys.hash_of_values`` takes."""

GROUPING_SET = "grouping set"
"""Stands among the keys of an exchange for the grouping set that a row was copied for."""


_LONGER_DAY_MS = 24 * 60 * 60 * 1000
"""More than a window on the clock of a time zone may be longer than its size."""


@dataclass(frozen=True)
class WindowAggregate(Windowed):
    """Aggregates per key and window. Results are emitted when ``firing`` says; by default once, when the window closes.

    If ``window`` is None, the input has the window ``columns`` already (from AssignWindows or another WindowAggregate
    below). Otherwise this node assigns the windows of rows with equal ``keys`` by the field ``time``; with ``time``
    None the clock gives the bounds (count, global and user-made windows over rows without a time).

    ``keys`` are fields of the input without the window columns. ``grouping_sets`` lists, for GROUPING SETS, the keys of
    each set; ``grouping_id`` then names an extra BIGINT field with GROUPING_ID over all ``keys`` in order. Keys that a
    set leaves out are NULL in the result; aggregates see them as they are in the input. ``aggregates`` are calls of one
    aggregate function each. ``pane`` and ``pane_index`` name fields with the kind (EARLY, ON_TIME, LATE) and number of
    the firing. Schema: keys, grouping_id, window columns, aggregates, pane, pane_index.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Item, ...]
    columns: WindowColumns = DEFAULT_COLUMNS
    window: Window | None = None
    time: str | None = None
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None
    domain: TimeDomain = TimeDomain.EVENT
    firing: Firing = DEFAULT_FIRING
    pane: str | None = None
    pane_index: str | None = None

    @property
    def clause(self) -> str:
        return "an aggregate of windows"

    @cached_property
    def schema(self) -> Schema:
        by_name = {f.name: f for f in self.input.schema}
        nullable = self.grouping_sets is not None
        keys = tuple(Field(k, by_name[k].type, nullable or by_name[k].nullable) for k in self.keys)
        grouping = (Field(self.grouping_id, DataType("BIGINT"), False),) if self.grouping_id else ()
        domain = self.domain if self.window is None else self.window.time_domain(self.domain)
        window = self.columns.fields(domain)
        return (*keys, *grouping, *window, *(a.field for a in self.aggregates), *self._panes)

    @property
    def _panes(self) -> Schema:
        kind = (Field(self.pane, DataType("STRING"), False),) if self.pane else ()
        index = (Field(self.pane_index, DataType("BIGINT"), False),) if self.pane_index else ()
        return (*kind, *index)

    @property
    def aggregate_items(self) -> tuple[Item, ...]:
        return self.aggregates

    @property
    def shows_rows_to_classes(self) -> bool:
        """True if users' Python classes (triggers and the like) get whole rows, so that any column may be read."""
        eviction = self.firing.eviction
        evicts = eviction is not None and isinstance(eviction.evictor, UserEvictor)
        fires = any(isinstance(trigger, UserTrigger) for trigger in simple_triggers(self.firing.trigger))
        return evicts or fires or isinstance(self.window, UserWindow)

    def remarks(self, shown: ShownNames) -> Iterator[Remark]:
        yield from self._firing_remarks(self.firing.trigger)
        yield from self._overlap_remarks()
        for item in self.aggregates:
            name, column = lists_in_arrival_order(item.expression), shown.get(item.name, item.name)
            if name and column is not None:
                certain = "SORT_ARRAY" if item.type.name == "ARRAY" else "ORDER BY inside it"
                order = f"lists values in the order of arrival; {certain} makes it certain"
                yield Topic.ARRIVAL, f'"{column}" ({name.upper()}) {order}.'

    # --- properties -------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """The kinds of rows that are emitted: retractions with the mode RETRACTING, deletes where windows merge or
        input rows are retracted.
        """
        if self.firing.accumulation is not Accumulation.RETRACTING or not self.firing.fires_again:
            return APPEND_ONLY
        window = self.window_info
        merges = window is not None and isinstance(window.window, (Session, UserWindow))
        goes = merges or self.input.changelog_mode != APPEND_ONLY
        return frozenset(RowKind) if goes else frozenset(RowKind) - {RowKind.DELETE}

    keeps_state = True

    @property
    def why_rows_stored(self) -> str | None:
        if self.firing.eviction is not None:
            return "EVICT looks at each"
        return "windows of the last rows share no bounds" if isinstance(self.window, RowMeasured) else None

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset() if isinstance(self.window, CountWindow) else frozenset({self.domain})

    @property
    def uses_processing_time(self) -> bool:
        by_clock = self.domain is TimeDomain.PROCESSING
        follows = by_clock if self.window is None else self.window.follows_clock(self.domain)
        return follows or self.firing.follows_clock

    @property
    def fires_on_barriers(self) -> bool:
        return self.firing.at_barriers

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        c = self.columns
        below = self.input.window_info
        window = self.window or (below.window if below else None)
        assert window is not None, "a window aggregate stands over rows with a window"
        return WindowInfo(window, c.start, c.end, c.time, self.domain, self.keys)

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """The keys with the window's bounds. Empty if the bounds do not identify the window, or if a window emits
        several results without retracting earlier ones.
        """
        window = self.window_info
        by_bounds = window is not None and isinstance(window.window, (AlignedWindow, Session))
        retracts = self.firing.accumulation is Accumulation.RETRACTING
        if not by_bounds or (self.firing.fires_again and not retracts):
            return frozenset()
        grouping = {self.grouping_id} if self.grouping_id else set()
        return frozenset({frozenset({*self.keys, *grouping, self.columns.start, self.columns.end})})

    arrival_order = ArrivalOrder.WINDOW

    @property
    def is_batch_invariant(self) -> bool:
        return self.firing.is_default and not isinstance(self.window, (GlobalWindow, UserWindow))

    # --- late rows --------------------------------------------------------------------------------------------

    @property
    def side_table(self) -> Table | None:
        return self.firing.late.table

    def late_marker(self, number: int) -> str | None:
        """The value of the hidden column LATE_TABLE in late rows of this node, which directs them to their table.
        ``number``: the number of the node among the stateful ones.
        """
        table = self.firing.late.table
        return f"{number}/{table.name}" if table is not None else None

    @property
    def late_fields(self) -> tuple[Field, ...]:
        """The input fields, without the bounds of the window, from which the rows for the table of late rows (LATE DATA
        TO) are made.
        """
        read = set[str]().union(*(columns_of(value) for value in self.firing.late.values))
        bounds = {self.columns.start, self.columns.end}
        return tuple(f for f in self.input.schema if f.name in read - bounds)

    # --- rules ------------------------------------------------------------------------------------------------

    def with_constants_folded(self) -> Node:
        return replace(self, aggregates=tuple(item.with_constants_folded() for item in self.aggregates))

    def pruned(self, required: FieldNames) -> Node:
        aggregates = tuple(a for a in self.aggregates if a.name in required)
        own = self.columns.names
        read = frozenset(self.keys).union(*(columns_of(a.expression) for a in aggregates), self.firing.fields_read)
        read |= self.input.field_names if self.shows_rows_to_classes else frozenset()
        # Late rows carry the bounds of the window that this node assigns.
        read = read | own if self.window is None else (read | self.times | self.window.fields_read) - own
        pane, pane_index = (name if name in required else None for name in (self.pane, self.pane_index))
        rebuilt = replace(self, aggregates=aggregates, pane=pane, pane_index=pane_index)
        return replace(rebuilt, input=self.input.pruned(read))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys. False with
        grouping sets, whose keys are NULL in the result but not in the input, and if a table receives late rows,
        because it must get those of all keys.
        """
        keyed = bool(read) and read <= set(self.keys) and self.grouping_sets is None
        return keyed and self.firing.late.action is LateAction.DROP

    def with_distinct_rows_closed(self) -> Node:
        if not isinstance(self.window, AlignedWindow) or self.time is None or self.domain is not TimeDomain.EVENT:
            return self
        longest_ms = self.window.size_ms + (_LONGER_DAY_MS if self.window.zone is not None else 0)
        below = self.input.distinct_rows_closed(self.time, longest_ms + self.firing.late.allow_ms)
        return replace(self, input=below)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return self.times

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"keys {', '.join(self.keys)}"] if self.keys else []
        if self.grouping_sets is not None:
            sets = ", ".join(f"({', '.join(s)})" for s in self.grouping_sets)
            parts.append(f"sets {sets} as {self.grouping_id}")
        parts.append(f"{self._window_text}{columns_text(self.columns)}")
        parts += [*self.firing.texts, *(["keeping rows"] if self.why_rows_stored else [])]
        panes = [name for name in (self.pane, self.pane_index) if name]
        return f"WindowAggregate({'; '.join([*parts, *(item.text for item in self.aggregates), *panes])})"

    @property
    def _window_text(self) -> str:
        if self.window is not None:
            return text_of(self.window, self.time)
        info = self.window_info
        assert info is not None
        return info.window.text

    # --- changes ----------------------------------------------------------------------------------------------

    consumer_name = "an aggregate over windows"

    producer_name = "the windows with RETRACTING"

    append_only_hint = "emit each result once (EMIT ON WINDOW CLOSE, or without RETRACTING)"

    def chain_link(self, rows_wait: bool) -> Link | str:
        below = self.input
        while isinstance(below, Project):
            below = below.input
        if not isinstance(below, WindowAggregate):
            return f"its rows do not come from windows with aggregates, but from {type(below).__name__}"
        reason = self._why_apart(below) or ("rows of the query may wait in state" if rows_wait else None)
        if reason is not None:
            return reason
        fields = dict(self._traced_fields())
        if None in fields.values():
            return "what it reads is computed from the results below"
        return self._link_to(below, {name: source for name, source in fields.items() if source is not None})

    def _link_to(self, below: WindowAggregate, fields: dict[str, str]) -> Link | str:
        keys = [fields[key] for key in self.keys]
        if set(keys) != set(below.keys) or len(keys) != len(below.keys):
            return "its keys are not those of the windows below"
        types = {f.name: f.type.name for f in below.schema}
        if not all(types[key] in HASHED for key in keys):
            return "its keys are of types that only Spark can hash"
        if not {fields[name] for name in self._time_fields} <= {
            below.columns.start,
            below.columns.end,
            below.columns.time,
        }:
            return "its time is not that of the windows below"
        return Link(below, tuple(fields.items()))

    def _why_apart(self, below: WindowAggregate) -> str | None:
        """What of the nodes themselves keeps them apart."""
        clock = self.uses_processing_time or below.uses_processing_time or (self.window and self.time is None)
        window = self.window
        cut = isinstance(window, Session) and window != Session(window.gap_ms)
        fixed_gap = isinstance(window, Session) and isinstance(window.gap_ms, int)
        plain = window is None or isinstance(window, AlignedWindow | CountWindow) or fixed_gap
        if clock:
            return "one of the two needs processing time"
        if self.grouping_sets is not None or below.grouping_sets is not None:
            return "GROUPING SETS have keys of their own"
        if below.changelog_mode != APPEND_ONLY:
            return "the windows below withdraw results"
        if window is not None and (cut or not plain):
            return f"{window.sql_name} reads more than the time of rows"
        if replace(self.firing, late=LateData()) != DEFAULT_FIRING:
            return "its trigger or eviction reads rows"
        return (
            None
            if all(reads_plain_column(item.expression) for item in self.aggregates)
            else "it computes what it reads"
        )

    # --- what is read -----------------------------------------------------------------------------------------

    @property
    def _time_fields(self) -> tuple[str, ...]:
        if self.window is None:
            return self.columns.start, self.columns.end
        return (self.time,) if self.time is not None else ()

    def _fields_chained(self) -> Iterator[str]:
        yield from (*self.keys, *self._time_fields)
        for item in self.aggregates:
            yield from (column.name for column in item.expression.find_all(exp.Column))
        if self.firing.late.action is LateAction.TO:
            yield from (field.name for field in self.late_fields)

    def _traced_fields(self) -> Iterator[tuple[str, str | None]]:
        """The fields that the node reads, with their names below the projections; None for what these compute."""
        for field in dict.fromkeys(self._fields_chained()):
            source = below_projections(self.input, field)
            yield field, None if source is None else source[1]

    @property
    def why_inserts_only(self) -> str | None:
        firing = self.firing
        if firing.eviction is not None:
            return "EVICT looks at rows one by one"
        if firing.late.action is LateAction.TO:
            return "the table of late rows would not tell which came and which went"
        if self.shows_rows_to_classes:
            return "Python classes see inserted rows"
        return self._why_rows_cannot_go

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        if self.grouping_sets is not None or self._window_computes or self._firing_computes:
            return None
        read, computed = fields_read_by(self.aggregates)
        every = [f.name for f in self.input.schema] if self.shows_rows_to_classes else []
        late = [f.name for f in self.late_fields] if self.firing.late.action is LateAction.TO else []
        names = dict.fromkeys([*self.keys, *self.times, *read, *late, *every])
        return FieldsRead(tuple(names), self.keys, self.time, computed)

    @property
    def _window_computes(self) -> bool:
        match self.window:
            case None:
                return True
            case Session(gap_ms=int(), start_when=None, end_when=None):
                return False
            case Session():
                return True
        return False

    @property
    def _firing_computes(self) -> bool:
        eviction = self.firing.eviction
        evicts = eviction is not None and isinstance(eviction.evictor, EvictDelta)
        return evicts or any(isinstance(trigger, When | Delta) for trigger in simple_triggers(self.firing.trigger))

    def with_windows_fused(self) -> WindowAggregate:
        """The aggregate changed to assign the windows itself; the same node if that would change its result.

        It would if an aggregate reads the window, which is known only at the end, or if the keys differ from the
        PARTITION BY of keyed windows.
        """
        if self.window is not None:
            return self
        assign = windows_on_top(self.input, {self.columns.time})
        if assign is None or not self._may_fuse(assign):
            return self
        return replace(self, input=assign.input, window=assign.window, time=assign.time)

    def _may_fuse(self, assign: AssignWindows) -> bool:
        if (self.columns.start, self.columns.end) != (assign.columns.start, assign.columns.end):
            return False
        if any(reads_window(a.expression, self.columns) for a in self.aggregates):
            return False
        if isinstance(assign.window, AlignedWindow):
            return True
        same = len(self.keys) == len(assign.partition_by) and set(self.keys) == set(assign.partition_by)
        return same and self.grouping_sets is None

    @property
    def kernel_kind(self) -> WindowKernelKind:
        if isinstance(self.window, Session) and not self.window.is_cut and self._fires_once:
            return WindowKernelKind.SESSIONS
        # Where windows close at once, a pane per time would be one for each row.
        closes_at_once = isinstance(self.window, Tumble) and self.window.size_ms == CLOSES_AT_ONCE
        if isinstance(self.window, AlignedWindow) and not closes_at_once and self._shares_panes:
            return WindowKernelKind.PANES
        return super().kernel_kind

    @property
    def _fires_once(self) -> bool:
        """True for one result per window, when it closes, over all its rows, and late rows never taken."""
        firing = self.firing
        by_default = firing.trigger in (None, AfterWatermark(), AfterProcessingTime()) and firing.late.allow_ms == 0
        return by_default and firing.eviction is None and self.pane is None and self.pane_index is None

    @property
    def _shares_panes(self) -> bool:
        """Panes are read in order of time, so aggregates that see the order of arrival need one pane per window."""
        in_order = isinstance(self.window, Tumble) or not any(sees_order(item.expression) for item in self.aggregates)
        return in_order and self._fires_once

    @property
    def depends_on_arrival_order(self) -> bool:
        if self.kernel_kind in (WindowKernelKind.COUNTED, WindowKernelKind.ROW_MEASURED, WindowKernelKind.CUT_SESSIONS):
            return True
        ordered = any(sees_order(item.expression) or sees_ties(item.expression) for item in self.aggregates)
        return ordered or not self._fires_by_time

    @property
    def _fires_by_time(self) -> bool:
        return self._fires_once and not isinstance(self.window, UserWindow)

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return (*self.keys, GROUPING_SET) if self.grouping_sets is not None else self.keys

    @property
    def before_exchange_text(self) -> str | None:
        return "explode of the grouping sets" if self.grouping_sets is not None else None

    def watermark_field(self, port: int = 0) -> str | None:
        return self.time if self.window is not None and self.domain is not TimeDomain.PROCESSING else None

    # --- Spark's own operators --------------------------------------------------------------------------------

    @property
    def columnar_only_clause(self) -> str | None:
        of_window = self.window.columnar_only_clause if self.window is not None else None
        return of_window or self._columnar_only_part or ("a window over changes" if self.retracts_rows else None)

    @property
    def _columnar_only_part(self) -> str | None:
        firing = self.firing
        if firing.eviction is not None:
            return "EVICT"
        if firing.late != DEFAULT_FIRING.late:
            return "LATE DATA"
        by_default = firing.trigger in (None, AfterWatermark(), AfterProcessingTime())
        if not by_default or firing.accumulation is not DEFAULT_FIRING.accumulation:
            return "TRIGGER or EMIT"
        return "window_pane()" if self.pane is not None or self.pane_index is not None else None

    @property
    def native_state_text(self) -> str:
        sets = f"explode of {len(self.grouping_sets)} grouping sets, " if self.grouping_sets is not None else ""
        window = "session_window" if isinstance(self.window, Session) else "window"
        keys = ", ".join([*self.keys, window])
        distinct = any(item.expression.find(exp.Distinct) for item in self.aggregates)
        collected = ", DISTINCT values kept as sets" if distinct else ""
        return f"{sets}streaming aggregation by {keys} in append mode, state in RocksDB{collected}"

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        provenance = {key: below[key] for key in self.keys}
        provenance |= {a.name: traced(a.expression, below) for a in self.aggregates} | self._provenance_of_window(below)
        extra = {"grouping_id": self.grouping_id, "pane": self.pane, "pane_index": self.pane_index}
        return provenance | {name: text for text, name in extra.items() if name is not None}

    def _provenance_of_window(self, below: Provenance) -> dict[str, str]:
        """Windows of the input keep the provenance of their columns."""
        own = provenance_of_columns(self.columns, below.get(self.time or ""))
        given = (
            {name: below[name] for name in own if name in below and is_qualified_by_tables()}
            if self.window is None
            else {}
        )
        return {**own, **given}

    state_title = ("window aggregate", "window aggregate")

    def reads_windows(self, above: bool) -> bool:
        return self.window is None

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        if self.grouping_sets is not None:
            yield "grouping sets", ", ".join(f"({', '.join(names[k] for k in s)})" for s in self.grouping_sets)
        if self.window is not None:
            yield "window", self.window.text
            yield "time", names.get(self.time or "", "the clock")
        yield "kind of time", self.domain.value
        yield "aggregates", ", ".join(traced(a.expression, names) for a in self.aggregates)
        yield "types of aggregates", ", ".join(types_of_aggregate(a, self.input.schema) for a in self.aggregates)
        yield "firing", "; ".join(self._firing_facts) or "once, when the window closes"
        if self.input.changelog_mode != APPEND_ONLY:
            yield "rows", "come and go"
        yield "columns of the pane", ", ".join(n for n, c in (("kind", self.pane), ("index", self.pane_index)) if c)
        # The other kernels may keep rows, under names made of expressions.
        if self.kernel_kind not in (WindowKernelKind.PANES, WindowKernelKind.SESSIONS):
            read = {c.name for a in self.aggregates for c in a.expression.find_all(exp.Column)}
            yield "columns", ", ".join(f.name for f in self.input.schema if f.name in read)

    @property
    def _firing_facts(self) -> list[str]:
        """The table of late rows may change; whether they go to a table at all determines what the kernel reads."""
        late = self.firing.late
        texts = replace(self.firing, late=replace(late, table=None, values=())).texts
        return [t.removesuffix(" TO") + " TO a table" if late.action is LateAction.TO and t.startswith("LATE") else t
                for t in texts]  # fmt: skip

    def state_descriptions(self) -> Iterator[StateDescription]:
        below = self.window_info
        window = self.window if self.window is not None or below is None else below.window
        what = "accumulators" if self.why_rows_stored is None else "rows"
        yield from window_state_descriptions(
            what, window, self.domain, keyed=bool(self.keys), allowed_ms=self.firing.late.allow_ms
        )
