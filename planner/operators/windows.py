"""Window table functions: each row once per window that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.changes import reads_before, taken_by, upsert_keys, with_inserts
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.window_text import window_text
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of, names_tables
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.physical.clocks import told_time
from sqlstream.planner.physical.gears import Gear, needs_columnar
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar, require_native
from sqlstream.planner.physical.planning import Above, stateless_step
from sqlstream.planner.physical.state_facts import keys_fact, rows_fact, shapes_state, state_facts, title_of
from sqlstream.planner.physical.steps import Compute, Step
from sqlstream.planner.physical.text import computed, native_state
from sqlstream.planner.properties import (
    ArrivalOrder,
    WindowInfo,
    acts_by_clock,
    arrival_order,
    awaited_by,
    changelog_mode,
    is_joint,
    keeps_rows,
    keeps_state,
    uses_processing_time,
    window_of,
)
from sqlstream.planner.rules.prune_columns import Names, all_fields, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below
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
    kind_of_window,
    read_by_window,
    time_of_windows,
)
from sqlstream.planner.catalog import ALL_KINDS
from sqlstream.planner.catalog import RowKind
from sqlstream.planner.changes import prefers_inserts
from sqlstream.planner.changes import takes_changes
from sqlstream.planner.changes import why_inserts_only
from sqlstream.planner.explain.advice import Remark
from sqlstream.planner.explain.advice import Topic
from sqlstream.planner.explain.advice import remarks
from sqlstream.planner.explain.first_result import first_result
from sqlstream.planner.firing import Trigger
from sqlstream.planner.operators.window_advice import _MANY_PANES
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_kernels import WindowKernelKind
from sqlstream.planner.operators.window_kernels import is_cut
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.windows import CLOSES_AT_ONCE


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
    columns: WindowColumns = DEFAULT_COLUMNS
    domain: TimeDomain = TimeDomain.EVENT

    @cached_property
    def schema(self) -> Schema:
        plain = tuple(Field(f.name, f.type, f.nullable) for f in self.input.schema)
        return (*plain, *self.columns.fields(time_of_windows(self.window, self.domain)))

    @property
    def times(self) -> frozenset[str]:
        """The field with the time of rows, where they have one."""
        return frozenset({self.time} if self.time is not None else ())

    def remarks(self) -> Iterator[Remark]:
        yield from self._firing_remarks(None) if self.keeps_state else ()
        yield from self._overlap_remarks()

    @property
    @cached_per_node
    def changelog_mode(self) -> frozenset[RowKind]:
        """Rows that come out when their window closes are those that are there by then."""
        return APPEND_ONLY if self.keeps_state else self.input.changelog_mode

    @property
    def why_inserts_only(self) -> str | None:
        return self._why_rows_cannot_go if self.keeps_state else None

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """The rows of a window table function on aligned windows come out at once."""
        return not isinstance(self.window, AlignedWindow)

    @property
    def why_rows_stored(self) -> str | None:
        return None if isinstance(self.window, AlignedWindow) else "they come out when their window fires"

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset() if isinstance(self.window, CountWindow | AlignedWindow) else frozenset({self.domain})

    @property
    def uses_processing_time(self) -> bool:
        return windows_follow_clock(self.window, self.domain)

    @property
    def emits_ahead_of_clock(self) -> bool:
        return self.domain is TimeDomain.PROCESSING

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

    def pruned(self, required: Names) -> Node:
        # Python classes of users see whole rows: which columns they read, nobody knows.
        shown = self.input.field_names if isinstance(self.window, UserWindow) else frozenset()
        read = {*self.partition_by, *self.times, *read_by_window(self.window), *shown}
        return replace(self, input=self.input.pruned((required - self.columns.names) | read))

    def passes_filter(self, read: set[str]) -> bool:
        if not isinstance(self.window, AlignedWindow):
            # UNSAFE but on keys: a filtered row still holds its session together, or fills its count.
            return bool(read) and read <= set(self.partition_by)
        return not read & self.columns.names

    def watermark_fields_needed(self, needed: Names) -> Names:
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

    native_state_text = "streaming aggregation by session_window that keeps all rows until the session closes, then inline"

    @property
    def needs_columnar(self) -> bool:
        return getattr(self.window, "zone", None) is not None

    @property
    def columnar_only_clause(self) -> str | None:
        changes = self.keeps_state and self.input.changelog_mode != APPEND_ONLY
        return only_columnar_window(self.window) or ("a window over changes" if changes else None)

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.partition_by

    def watermark_field(self, port: int = 0) -> str | None:
        return self.time if self.domain is not TimeDomain.PROCESSING else None

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Meanings:
        below = self.input.column_provenance
        return {**below, **names_of_columns(self.columns, below.get(self.time or ""))}

    state_title = ("windows", "windows")

    shapes_state_above = True

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input, self.partition_by, names)
        yield "window", window_text(self.window)
        yield "time", names.get(self.time or "", "the clock")
        yield "kind of time", self.domain.value
        if self.keeps_state:
            yield "columns", self.input.rows_fact
            if self.input.changelog_mode != APPEND_ONLY:
                yield "rows", "come and go"

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    def consumer_name(self) -> str:
        return f"{kind_of_window(self.window)} in FROM"

    @property
    @cached_per_node
    def upsert_keys(self) -> frozenset[frozenset[str]]:
        """A row stands in its windows: those with the bounds of a key are about one of them."""
        if self.keeps_state:
            return frozenset()
        return frozenset(key | {self.columns.start, self.columns.end} for key in self.input.upsert_keys)

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """A row that moves in time has other windows."""
        return True

    def append_only_variant(self) -> Node | None:
        below = None if self.keeps_state else self.input.append_only_variant()
        return None if below is None else replace(self, input=below)

    def state_descriptions(self) -> Iterator[Kept]:
        if self.keeps_state:
            yield from kept_by_windows("rows", self.window, self.domain, keyed=bool(self.partition_by))


def windows_follow_clock(window: Window | None, domain: TimeDomain) -> bool:
    """True for windows of processing time, but for those that count rows, and for those that a class may end."""
    by_time = domain is TimeDomain.PROCESSING and not isinstance(window, CountWindow)
    return by_time or isinstance(window, UserWindow)


def text_of(window: Window, time: str | None) -> str:
    """``TUMBLE size 1 min on ts``."""
    return f"{window_text(window)}{f' on {time}' if time else ''}"


def columns_text(columns: WindowColumns) -> str:
    """What the columns of windows are called; nothing where that is what they always are."""
    names = (columns.start, columns.end, columns.time)
    return "" if columns == DEFAULT_COLUMNS else f" as {', '.join(names)}"


# --- what runs ------------------------------------------------------------------------------------------------


@stateless_step.register
def _(node: AssignWindows, above: Above) -> Step:
    if above.whole.gear is Gear.NATIVE:
        require_native(node)
    return Compute(node, above.below(node), arrow=node.needs_columnar)


_ONLY_COLUMNAR: dict[type[Window], str] = {
    CountWindow: "COUNT WINDOW",
    RowMeasured: "a window that mixes rows and time",
    GlobalWindow: "GLOBAL WINDOW",
    UserWindow: "WINDOW USING",
}


def only_columnar_window(window: Window | None) -> str | None:
    """What of a window Spark's own operators cannot do."""
    match window:
        case Tumble() | Hop() | Cumulate():
            return "a window on the clock of a time zone" if window.zone is not None else None
        case None | Session(gap_ms=int(), max_duration_ms=None, start_when=None, end_when=None):
            return None
        case Session():
            return "SESSION with a gap per row, MAX_DURATION, START_WHEN or END_WHEN"
    return _ONLY_COLUMNAR[type(window)]


def names_of_columns(columns: WindowColumns, time: str | None = None) -> Meanings:
    """``time``: the meaning of the field that tells the windows of rows, which lineage shows."""
    of = f"({time})" if time is not None and names_tables() else ""
    return {columns.start: f"window_start{of}", columns.end: f"window_end{of}", columns.time: f"window_time{of}"}


def kept_by_windows(
    what: str, window: Window | None, domain: TimeDomain, *, keyed: bool, allowed_ms: int = 0
) -> Iterator[Kept]:
    """What is kept of windows: those of time close, those of rows do not."""
    match window:
        case GlobalWindow() | CountWindow():
            of = "each key" if keyed else "all rows"
            yield Kept(f"the {what} of {of} that no window has given back", None if keyed else "there is one key")
        case UserWindow():
            yield Kept(f"the {what} of each window", f"{window.call.function} ends the window")
        case _:
            passes = "the clock passes" if domain is TimeDomain.PROCESSING else "the watermark passes"
            later = f", and {readable(allowed_ms)} more for late rows" if allowed_ms else ""
            yield Kept(f"the {what} of open windows", f"{passes} their end{later}")


class Windowed(Unary):

    def _firing_remarks(self, trigger: Trigger | None) -> Iterator[Remark]:
        """Of a node that waits for its windows to fire."""
        info, reason = self.window_info, self.why_rows_stored
        assert info is not None
        yield Topic.LATENCY, first_result(info, trigger, self.watermark_delay_ms or 0)
        if reason is not None:
            yield Topic.KEPT_ROWS, f"{window_text(info.window)} keeps its rows, not aggregates of them: {reason}."

    def _overlap_remarks(self) -> Iterator[Remark]:
        match self.window:
            case Hop(slide_ms=part, size_ms=size) | Cumulate(step_ms=part, size_ms=size) if size // part >= _MANY_PANES:
                text = f"{window_text(self.window)}: each row belongs to up to {-(-size // part)} windows."
                yield Topic.MANY_WINDOWS, text

    def accepted_kinds(self, port: int = 0) -> frozenset[RowKind]:
        """Windows that take rows back: those whose bounds do not depend on which rows are there."""
        return ALL_KINDS if self.why_inserts_only is None else APPEND_ONLY

    @property
    def prefers_inserts(self) -> bool:
        return self.keeps_state

    @property
    def _why_rows_cannot_go(self) -> str | None:
        match self.window:
            case CountWindow() | RowMeasured():
                return "which rows a window holds would change with each row that goes"
            case Session() as session if is_cut(session):
                return "where a session is cut would change with rows that go"
            case UserWindow():
                return "Python classes see inserted rows"
        if self.domain is TimeDomain.PROCESSING:
            return "a row does not go in the window of processing time in which it came"
        return None

    @property
    def kernel_kind(self) -> WindowKernelKind:
        match self.window:
            case CountWindow():
                return WindowKernelKind.COUNTED
            case RowMeasured():
                return WindowKernelKind.ROW_MEASURED
            case Session() as session if is_cut(session):
                return WindowKernelKind.CUT_SESSIONS
            case Session() if isinstance(self, WindowAggregate) and self._fires_once:
                return WindowKernelKind.SESSIONS
            case Tumble(size_ms=size) if size == CLOSES_AT_ONCE:  # a pane per time would be one for each row
                return WindowKernelKind.GENERAL
            case Tumble() | Hop() | Cumulate() if isinstance(self, WindowAggregate) and self._shares_panes:
                return WindowKernelKind.PANES
        return WindowKernelKind.GENERAL

    @property
    def kernel_text(self) -> str:
        reason = self.why_rows_stored
        kept = f"rows kept ({reason})" if reason else "aggregates of the rows kept"
        return f"of {kind_of(self).value}, {kept}{', also when rows go' if self.retracts_rows else ''}"

    @property
    def retracts_rows(self) -> bool:
        """True where some rows of the input are no inserts."""
        return self.input.changelog_mode != APPEND_ONLY
