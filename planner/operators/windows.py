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


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: AssignWindows) -> bool:
    """The rows of a window table function on aligned windows come out at once."""
    return not isinstance(node.window, AlignedWindow)


@keeps_rows.register
def _(node: AssignWindows) -> str | None:
    return None if isinstance(node.window, AlignedWindow) else "they come out when their window fires"


@awaited_by.register
def _(node: AssignWindows) -> frozenset[TimeDomain]:
    return frozenset() if isinstance(node.window, CountWindow | AlignedWindow) else frozenset({node.domain})


@uses_processing_time.register
def _(node: AssignWindows) -> bool:
    return windows_follow_clock(node.window, node.domain)


def windows_follow_clock(window: Window | None, domain: TimeDomain) -> bool:
    """True for windows of processing time, but for those that count rows, and for those that a class may end."""
    by_time = domain is TimeDomain.PROCESSING and not isinstance(window, CountWindow)
    return by_time or isinstance(window, UserWindow)


@acts_by_clock.register
def _(node: AssignWindows) -> bool:
    return node.domain is TimeDomain.PROCESSING


@window_of.register
def _(node: AssignWindows) -> WindowInfo | None:
    c = node.columns
    return WindowInfo(node.window, c.start, c.end, c.time, node.domain, node.partition_by)


@arrival_order.register
def _(node: AssignWindows) -> ArrivalOrder:
    return arrival_order(node.input) if isinstance(node.window, AlignedWindow) else ArrivalOrder.WINDOW


@is_joint.register
def _(node: AssignWindows) -> bool:
    return not isinstance(node.window, (GlobalWindow, UserWindow))


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: AssignWindows, required: Names) -> Node:
    # Python classes of users see whole rows: which columns they read, nobody knows.
    shown = all_fields(node.input) if isinstance(node.window, UserWindow) else frozenset()
    read = {*node.partition_by, *node.times, *read_by_window(node.window), *shown}
    return replace(node, input=pruned(node.input, (required - node.columns.names) | read))


@passes.register
def _(node: AssignWindows, read: set[str]) -> bool:
    if not isinstance(node.window, AlignedWindow):
        # UNSAFE but on keys: a filtered row still holds its session together, or fills its count.
        return bool(read) and read <= set(node.partition_by)
    return not read & node.columns.names


@needed_below.register
def _(node: AssignWindows, needed: Names) -> Names:
    return node.times


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: AssignWindows) -> str:
    keys = f" partition by {', '.join(node.partition_by)}" if node.partition_by else ""
    return f"AssignWindows({text_of(node.window, node.time)}{keys}{columns_text(node.columns)})"


def text_of(window: Window, time: str | None) -> str:
    """``TUMBLE size 1 min on ts``."""
    return f"{window_text(window)}{f' on {time}' if time else ''}"


def columns_text(columns: WindowColumns) -> str:
    """What the columns of windows are called; nothing where that is what they always are."""
    names = (columns.start, columns.end, columns.time)
    return "" if columns == DEFAULT_COLUMNS else f" as {', '.join(names)}"


@computed.register
def _(node: AssignWindows) -> str:
    window = node.window
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


@native_state.register
def _(node: AssignWindows) -> str:
    return "streaming aggregation by session_window that keeps all rows until the session closes, then inline"


# --- what runs ------------------------------------------------------------------------------------------------


@stateless_step.register
def _(node: AssignWindows, above: Above) -> Step:
    if above.whole.gear is Gear.NATIVE:
        require_native(node)
    return Compute(node, above.below(node), arrow=needs_columnar(node))


@needs_columnar.register
def _(node: AssignWindows) -> bool:
    return getattr(node.window, "zone", None) is not None


@only_columnar.register
def _(node: AssignWindows) -> str | None:
    changes = keeps_state(node) and changelog_mode(node.input) != APPEND_ONLY
    return only_columnar_window(node.window) or ("a window over changes" if changes else None)


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


@keys_of.register
def _(node: AssignWindows) -> tuple[str, ...]:
    return node.partition_by


@told_time.register
def _(node: AssignWindows, port: int = 0) -> str | None:
    return node.time if node.domain is not TimeDomain.PROCESSING else None


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: AssignWindows) -> Meanings:
    below = names_of(node.input)
    return {**below, **names_of_columns(node.columns, below.get(node.time or ""))}


def names_of_columns(columns: WindowColumns, time: str | None = None) -> Meanings:
    """``time``: the meaning of the field that tells the windows of rows, which lineage shows."""
    of = f"({time})" if time is not None and names_tables() else ""
    return {columns.start: f"window_start{of}", columns.end: f"window_end{of}", columns.time: f"window_time{of}"}


@title_of.register
def _(node: AssignWindows) -> tuple[str, str]:
    return "windows", "windows"


@shapes_state.register
def _(node: AssignWindows) -> bool:
    return True


@state_facts.register
def _(node: AssignWindows) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.partition_by, names)
    yield "window", window_text(node.window)
    yield "time", names.get(node.time or "", "the clock")
    yield "kind of time", node.domain.value
    if keeps_state(node):
        yield "columns", rows_fact(node.input)
        if changelog_mode(node.input) != APPEND_ONLY:
            yield "rows", "come and go"


# --- changes --------------------------------------------------------------------------------------------------


@taken_by.register
def _(node: AssignWindows) -> str:
    return f"{kind_of_window(node.window)} in FROM"


@upsert_keys.register
def _(node: AssignWindows) -> frozenset[frozenset[str]]:
    """A row stands in its windows: those with the bounds of a key are about one of them."""
    if keeps_state(node):
        return frozenset()
    return frozenset(key | {node.columns.start, node.columns.end} for key in upsert_keys(node.input))


@reads_before.register
def _(node: AssignWindows, above: bool, port: int = 0) -> bool:
    """A row that moves in time has other windows."""
    return True


@with_inserts.register
def _(node: AssignWindows) -> Node | None:
    below = None if keeps_state(node) else with_inserts(node.input)
    return None if below is None else replace(node, input=below)


@kept.register
def _(node: AssignWindows) -> Iterator[Kept]:
    if keeps_state(node):
        yield from kept_by_windows("rows", node.window, node.domain, keyed=bool(node.partition_by))


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
