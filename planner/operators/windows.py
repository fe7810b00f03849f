"""Window table functions, and what they have in common with aggregates over windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import (
    Field,
    FieldNames,
    Item,
    Provenance,
    Schema,
    UniqueNames,
    is_qualified_by_tables,
    keys_fact,
)
from sqlstream.planner.firing import AfterProcessingTime, AfterWatermark, Trigger
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.properties import (
    ArrivalOrder,
    Keys,
    Kinds,
    Remark,
    ShownNames,
    StateDescription,
    Topic,
    WindowInfo,
)
from sqlstream.planner.windows import (
    DEFAULT_COLUMNS,
    AlignedWindow,
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    Window,
    WindowColumns,
)


class WindowKernelKind(Enum):
    """The kernels that compute windows, of which the planner chooses one."""

    PANES = "panes that windows share"
    COUNTED = "rows counted per key"
    ROW_MEASURED = "rows in order of time"
    SESSIONS = "sessions, one state each"
    CUT_SESSIONS = "sessions cut in order of time"
    GENERAL = "window by window"


class Windowed(Unary):
    """Base of nodes that compute windows: window table functions and aggregates over windows."""

    window: Window | None
    time: str | None
    columns: WindowColumns
    domain: TimeDomain

    @property
    @cached_per_node
    def has_sub_millisecond_times(self) -> bool:
        """Whether emitted times may be finer than milliseconds: those of aligned windows never are, others are times of
        rows.
        """
        return self.input.has_sub_millisecond_times and not isinstance(self.window, AlignedWindow)

    @property
    def operator_held_back_ms(self) -> int:
        """By how many milliseconds this operator's watermark is earlier than that of the query: as much as at its
        input, and one more if times are finer than milliseconds.

        A window closes when the watermark is a millisecond before its end, as in Flink, whose times are whole
        milliseconds. Rows with finer times may still arrive then.
        """
        closes_by_time = not (self.window is None or self.time is None or isinstance(self.window, CountWindow))
        finer = closes_by_time and self.domain is not TimeDomain.PROCESSING and self.input.has_sub_millisecond_times
        return super().operator_held_back_ms + (1 if finer else 0)

    @property
    def times(self) -> FieldNames:
        """A set with the name of the field that has the time of rows; empty if no such field assigns the windows."""
        return frozenset({self.time} if self.time is not None else ())

    def _firing_remarks(self, trigger: Trigger | None) -> Iterator[Remark]:
        """Remarks on windows that fire with ``trigger``: when the first result comes, and why rows are stored."""
        info, reason = self.window_info, self.why_rows_stored
        assert info is not None
        yield Topic.LATENCY, _latency_text(info, trigger, self.watermark_delay_ms or 0)
        if reason is not None:
            yield Topic.KEPT_ROWS, f"{info.window.text} keeps its rows, not aggregates of them: {reason}."

    def _overlap_remarks(self) -> Iterator[Remark]:
        """A remark on windows that overlap in many others."""
        match self.window:
            case Hop(slide_ms=part, size_ms=size) | Cumulate(step_ms=part, size_ms=size) if size // part >= _MANY_PANES:
                text = f"{self.window.text}: each row belongs to up to {-(-size // part)} windows."
                yield Topic.MANY_WINDOWS, text

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """All kinds where the bounds of windows do not depend on the rows; else inserts only."""
        return ALL_KINDS if self.why_inserts_only is None else APPEND_ONLY

    @property
    def prefers_inserts(self) -> bool:
        return self.keeps_state

    @property
    def _why_rows_cannot_go(self) -> str | None:
        """Why the windows accept no retractions: their bounds depend on the rows. In processing time a retraction
        counts in the windows in which it arrives, as in Flink.
        """
        match self.window:
            case CountWindow() | RowMeasured():
                return "which rows a window holds would change with each row that goes"
            case Session(is_cut=True):
                return "where a session is cut would change with rows that go"
            case UserWindow():
                return "Python classes see inserted rows"
        return None

    @property
    def kernel_kind(self) -> WindowKernelKind:
        """The kernel that computes the windows; the fast ones compute windows that fire once."""
        match self.window:
            case CountWindow():
                return WindowKernelKind.COUNTED
            case RowMeasured():
                return WindowKernelKind.ROW_MEASURED
            case Session(is_cut=True):
                return WindowKernelKind.CUT_SESSIONS
        return WindowKernelKind.GENERAL

    @property
    def kernel_text(self) -> str:
        reason = self.why_rows_stored
        kept = f"rows kept ({reason})" if reason else "aggregates of the rows kept"
        return f"of {self.kernel_kind.value}, {kept}{', also when rows go' if self.retracts_rows else ''}"

    @property
    def retracts_rows(self) -> bool:
        """True where the input may retract rows."""
        return self.input.changelog_mode != APPEND_ONLY

    @property
    def emits_ahead_of_clock(self) -> bool:
        return self.domain is TimeDomain.PROCESSING


_MANY_PANES = 100
"""From so many windows per row on, EXPLAIN ADVICE says so."""


@dataclass(frozen=True)
class AssignWindows(Windowed):
    """A window table function such as TUMBLE: emits each row once per window that contains it, with the columns of the
    window.

    ``partition_by`` names the key fields, for windows that belong to a key: rows of SESSION are emitted when the
    session closes, those of count and row-measured windows when the window fires. ``time`` None: rows have no time, and
    the clock (``domain`` PROCESSING) gives the bounds of a count window.
    """

    window: Window
    time: str | None
    partition_by: tuple[str, ...]
    columns: WindowColumns = DEFAULT_COLUMNS
    domain: TimeDomain = TimeDomain.EVENT

    @property
    def clause(self) -> str:
        return "a session window"

    @cached_property
    def schema(self) -> Schema:
        plain = tuple(Field(f.name, f.type, f.nullable) for f in self.input.schema)
        return (*plain, *self.columns.fields(self.window.time_domain(self.domain)))

    def remarks(self, shown: ShownNames) -> Iterator[Remark]:
        yield from self._firing_remarks(None) if self.keeps_state else ()
        yield from self._overlap_remarks()

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """The input's kinds, or inserts only where rows are emitted when their window closes and so are final."""
        return APPEND_ONLY if self.keeps_state else self.input.changelog_mode

    @property
    def why_inserts_only(self) -> str | None:
        return self._why_rows_cannot_go if self.keeps_state else None

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """True for all windows except aligned ones, whose rows are emitted at once."""
        return not isinstance(self.window, AlignedWindow)

    @property
    def why_rows_stored(self) -> str | None:
        return None if isinstance(self.window, AlignedWindow) else "they come out when their window fires"

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset() if isinstance(self.window, CountWindow | AlignedWindow) else frozenset({self.domain})

    @property
    def uses_processing_time(self) -> bool:
        return self.window.follows_clock(self.domain)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        c = self.columns
        return WindowInfo(self.window, c.start, c.end, c.time, self.domain, self.partition_by)

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        return self.input.arrival_order if isinstance(self.window, AlignedWindow) else ArrivalOrder.WINDOW

    @property
    def is_batch_invariant(self) -> bool:
        return not isinstance(self.window, (GlobalWindow, UserWindow))

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        # Python classes of users get whole rows: it is unknown which columns they read.
        shown = self.input.field_names if isinstance(self.window, UserWindow) else frozenset()
        read = {*self.partition_by, *self.times, *self.window.fields_read, *shown}
        return replace(self, input=self.input.pruned((required - self.columns.names) | read))

    def passes_filter(self, read: set[str]) -> bool:
        if not isinstance(self.window, AlignedWindow):
            # UNSAFE but on keys: a filtered row still holds its session together, or fills its count.
            return bool(read) and read <= set(self.partition_by)
        return not read & self.columns.names

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return self.times

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        keys = f" partition by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"AssignWindows({text_of(self.window, self.time)}{keys}{columns_text(self.columns)})"

    @property
    def compute_text(self) -> str:
        window = self.window
        assert isinstance(window, AlignedWindow), window
        if window.zone is not None:
            return f"mapInArrow that assigns windows on the clock of {window.zone}"
        match window:
            case Tumble():
                return "projection, one window per row"
            case Hop(slide_ms=slide, size_ms=size):
                return f"explode of up to {-(-size // slide)} windows per row"
            case Cumulate(step_ms=step, size_ms=size):
                return f"explode of up to {size // step} windows per row"

    native_state_text = (
        "streaming aggregation by session_window that keeps all rows until the session closes, then inline"
    )

    @property
    def needs_columnar(self) -> bool:
        return getattr(self.window, "zone", None) is not None

    @property
    def columnar_only_clause(self) -> str | None:
        changes = self.keeps_state and self.retracts_rows
        return self.window.columnar_only_clause or ("a window over changes" if changes else None)

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.partition_by

    def watermark_field(self, port: int = 0) -> str | None:
        return self.time if self.domain is not TimeDomain.PROCESSING else None

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {**below, **provenance_of_columns(self.columns, below.get(self.time or ""))}

    state_title = ("windows", "windows")

    shapes_state_above = True

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.partition_by, names)
        yield "window", self.window.text
        yield "time", names.get(self.time or "", "the clock")
        yield "kind of time", self.domain.value
        if self.keeps_state:
            yield "columns", self.input.rows_fact
            if self.retracts_rows:
                yield "rows", "come and go"

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    def consumer_name(self) -> str:
        return f"{self.window.sql_name} in FROM"

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """The input's upsert keys with the window's bounds: each identifies a row in one of its windows."""
        if self.keeps_state:
            return frozenset()
        return frozenset(key | {self.columns.start, self.columns.end} for key in self.input.upsert_keys)

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True, because a row whose time changes moves to other windows."""
        return True

    def append_only_variant(self) -> Node | None:
        below = None if self.keeps_state else self.input.append_only_variant()
        return None if below is None else replace(self, input=below)

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.keeps_state:
            yield from window_state_descriptions("rows", self.window, self.domain, keyed=bool(self.partition_by))


# --- texts ----------------------------------------------------------------------------------------------------


def text_of(window: Window, time: str | None) -> str:
    """The window in words, ``TUMBLE size 1 min on ts``."""
    return f"{window.text}{f' on {time}' if time else ''}"


def columns_text(columns: WindowColumns) -> str:
    """The names of the window columns, for EXPLAIN; empty if they are the default ones."""
    names = (columns.start, columns.end, columns.time)
    return "" if columns == DEFAULT_COLUMNS else f" as {', '.join(names)}"


def provenance_of_columns(columns: WindowColumns, time: str | None = None) -> Provenance:
    """The provenance of window columns. ``time``: that of the field that assigns windows, for lineage."""
    of = f"({time})" if time is not None and is_qualified_by_tables() else ""
    return {columns.start: f"window_start{of}", columns.end: f"window_end{of}", columns.time: f"window_time{of}"}


def window_state_descriptions(
    what: str, window: Window | None, domain: TimeDomain, *, keyed: bool, allowed_ms: int = 0
) -> Iterator[StateDescription]:
    """Describes the state of windows for EXPLAIN. ``what`` is the plural of the things stored, such as "rows". The
    state of time windows is freed when they close; that of windows that count rows is never freed.
    """
    match window:
        case GlobalWindow() | CountWindow():
            of = "each key" if keyed else "all rows"
            yield StateDescription(
                f"the {what} of {of} that no window has given back", None if keyed else "there is one key"
            )
        case UserWindow():
            yield StateDescription(f"the {what} of each window", f"{window.call.function} ends the window")
        case _:
            passes = "the clock passes" if domain is TimeDomain.PROCESSING else "the watermark passes"
            later = f", and {readable(allowed_ms)} more for late rows" if allowed_ms else ""
            yield StateDescription(f"the {what} of open windows", f"{passes} their end{later}")


def _latency_text(info: WindowInfo, trigger: Trigger | None, delay_ms: int) -> str:
    """When windows give their first result. It never leaves before the end of the micro-batch with its last row.

    ``delay_ms``: how far the watermark is behind.
    """
    name = f"Latency floor of {info.window.text}"
    if isinstance(info.window, CountWindow | RowMeasured):
        return f"{name}: {info.window.rows_text}."
    if isinstance(info.window, GlobalWindow) and trigger in (AfterWatermark(), AfterProcessingTime()):
        return f"{name}: results come at the end of the input."
    if trigger is not None:
        return f"{name}: its first result comes {trigger.first_firing_text}."
    if info.domain is TimeDomain.PROCESSING:
        return f"{name}: results come when the clock passes the end of the window{info.window.wait_text(0)}."
    after = f"{readable(delay_ms)} after the end of the window" if delay_ms else "at the end of the window"
    return f"{name}: results come {after} in event time{info.window.wait_text(delay_ms)}."


# --- windows above projections and filters ---------------------------------------------------------------------
# The windows of a table function are moved above the projections and filters over it.
# An aggregate that then takes over the windows sees the rows once, not once per window, and can share panes between
# windows; a session or a count window then stores aggregates in place of rows.


def reads_window(expression: exp.Expr, columns: WindowColumns) -> bool:
    """True where an expression reads one of the window columns."""
    return bool(columns_of(expression) & columns.names)


def windows_on_top(node: Node, spare: set[str]) -> AssignWindows | None:
    """Rearranges a plan so that the node that assigns windows is the root: filters and projections move below it. The
    rows are the same, apart from the fields ``spare``, which may be missing or additional. None if that is impossible.
    """
    match node:
        case AssignWindows():
            return node
        case Filter():
            below = windows_on_top(node.input, spare)
            return _above_filter(node, below) if below is not None else None
        case Project():
            below = windows_on_top(node.input, _names_below(node, spare))
            return _above_project(node, below, spare) if below is not None else None
    return None


def _above_filter(node: Filter, assign: AssignWindows) -> AssignWindows | None:
    """UNSAFE where rows belong to windows together: a filtered row still holds its session, or fills its count."""
    if not isinstance(assign.window, AlignedWindow) or reads_window(node.condition, assign.columns):
        return None
    return replace(assign, input=Filter(assign.input, node.condition))


def _above_project(node: Project, assign: AssignWindows, spare: set[str]) -> AssignWindows | None:
    """The windows over the projection of all but their columns, which is given the time column to pass on."""
    kept = tuple(i for i in node.items if not reads_window(i.expression, assign.columns))
    dropped = [i for i in node.items if i not in kept and i.name not in spare]
    renamed = {i.expression.name: i.name for i in dropped if isinstance(i.expression, exp.Column)}
    if len(renamed) < len(dropped) or not {assign.columns.start, assign.columns.end} <= set(renamed):
        return None
    names = UniqueNames([*(i.name for i in node.items), *spare])
    given = [i.name for i in node.items if i.name in spare and i not in kept]
    window_time = given[0] if given else renamed.get(assign.columns.time) or names.unique("window_time")
    columns = WindowColumns(renamed[assign.columns.start], renamed[assign.columns.end], window_time)
    kept, fields = _passing(_needed(assign), kept, assign.input, names)
    keys = tuple(fields[k] for k in assign.partition_by)
    time = fields[assign.time] if assign.time else None
    window = assign.window.renamed(fields)
    return replace(
        assign, window=window, input=Project(assign.input, kept), columns=columns, partition_by=keys, time=time
    )


def _needed(assign: AssignWindows) -> list[str]:
    time = [assign.time] if assign.time else []
    return [*assign.partition_by, *time, *assign.window.fields_read]


def _names_below(node: Project, names: set[str]) -> set[str]:
    return {i.expression.name for i in node.items if i.name in names and isinstance(i.expression, exp.Column)}


def _passing(
    wanted: list[str], kept: tuple[Item, ...], below: Node, names: UniqueNames
) -> tuple[tuple[Item, ...], dict[str, str]]:
    """The items with those fields passed on, and under which names they are."""
    items = list(kept)
    passed_names = {i.expression.name: i.name for i in kept if isinstance(i.expression, exp.Column) and i.time is None}
    for field in below.schema:
        # The items read rows with windows, where no field is a time attribute any more.
        if field.name in wanted and (field.time is not None or field.name not in passed_names):
            passed_names[field.name] = names.unique(field.name)
            items.append(replace(field.as_item, name=passed_names[field.name]))
    return tuple(items), passed_names
