"""Aggregates per key and window: what they are, what the rules may do with them, and how they read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.changes import instead_of, made_by, taken_by
from sqlstream.planner.explain.describe import describe, item_text
from sqlstream.planner.explain.window_text import firing_text, window_text
from sqlstream.planner.firing import (
    DEFAULT_FIRING,
    Accumulation,
    Firing,
    LateAction,
    UserEvictor,
    UserTrigger,
    by_clock,
    fires_again,
    simple_triggers,
)
from sqlstream.planner.nodes import Field, Item, Node, Schema, Unary
from sqlstream.planner.operators.windows import columns_text, text_of, windows_follow_clock
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
    sees_barriers,
    side_table,
    unique_keys,
    uses_processing_time,
    window_of,
)
from sqlstream.planner.rewriting import columns_of, read_by_firing
from sqlstream.planner.rules.fold_constants import folded_item, with_folded
from sqlstream.planner.rules.prune_columns import Names, all_fields, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.planner.windows import (
    DEFAULT_COLUMNS,
    AlignedWindow,
    CountWindow,
    GlobalWindow,
    RowMeasured,
    Session,
    UserWindow,
    Window,
    WindowColumns,
    read_by_window,
    time_of_windows,
)
from sqlstream.types import DataType


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
    columns: WindowColumns = DEFAULT_COLUMNS
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

    @property
    def times(self) -> frozenset[str]:
        """The field with the time of rows, where this node assigns windows by one."""
        return frozenset({self.time} if self.time is not None else ())

    @property
    def shows_rows_to_classes(self) -> bool:
        """True where Python classes of users see whole rows: which columns they read, nobody knows."""
        eviction = self.firing.eviction
        evicts = eviction is not None and isinstance(eviction.evictor, UserEvictor)
        fires = any(isinstance(trigger, UserTrigger) for trigger in simple_triggers(self.firing.trigger))
        return evicts or fires or isinstance(self.window, UserWindow)


# --- properties -----------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: WindowAggregate) -> frozenset[RowKind]:
    """RETRACTING retracts what it emitted before; only windows that merge, or whose rows go, take a result back for
    good."""
    if node.firing.accumulation is not Accumulation.RETRACTING or not fires_again(node.firing):
        return APPEND_ONLY
    window = window_of(node)
    merges = window is not None and isinstance(window.window, (Session, UserWindow))
    goes = merges or changelog_mode(node.input) != APPEND_ONLY
    return frozenset(RowKind) if goes else frozenset(RowKind) - {RowKind.DELETE}


@keeps_state.register
def _(node: WindowAggregate) -> bool:
    return True


@keeps_rows.register
def _(node: WindowAggregate) -> str | None:
    if node.firing.eviction is not None:
        return "EVICT looks at each"
    return "windows of the last rows share no bounds" if isinstance(node.window, RowMeasured) else None


@awaited_by.register
def _(node: WindowAggregate) -> frozenset[TimeDomain]:
    return frozenset() if isinstance(node.window, CountWindow) else frozenset({node.domain})


@uses_processing_time.register
def _(node: WindowAggregate) -> bool:
    return windows_follow_clock(node.window, node.domain) or any(map(by_clock, simple_triggers(node.firing.trigger)))


@acts_by_clock.register
def _(node: WindowAggregate) -> bool:
    return node.domain is TimeDomain.PROCESSING


@sees_barriers.register
def _(node: WindowAggregate) -> bool:
    return node.firing.at_barriers


@window_of.register
def _(node: WindowAggregate) -> WindowInfo | None:
    c = node.columns
    below = window_of(node.input)
    window = node.window or (below.window if below else None)
    assert window is not None, "a window aggregate stands over rows with a window"
    return WindowInfo(window, c.start, c.end, c.time, node.domain, node.keys)


@unique_keys.register
def _(node: WindowAggregate) -> frozenset[frozenset[str]]:
    """One row per key and window; bounds do not tell windows of rows apart, and each firing adds a row."""
    window = window_of(node)
    by_bounds = window is not None and isinstance(window.window, (AlignedWindow, Session))
    retracts = node.firing.accumulation is Accumulation.RETRACTING
    if not by_bounds or (fires_again(node.firing) and not retracts):
        return frozenset()
    grouping = {node.grouping_id} if node.grouping_id else set()
    return frozenset({frozenset({*node.keys, *grouping, node.columns.start, node.columns.end})})


@arrival_order.register
def _(node: WindowAggregate) -> ArrivalOrder:
    return ArrivalOrder.WINDOW


@is_joint.register
def _(node: WindowAggregate) -> bool:
    return node.firing.is_default and not isinstance(node.window, (GlobalWindow, UserWindow))


# --- late rows ------------------------------------------------------------------------------------------------


@side_table.register
def _(node: WindowAggregate) -> Table | None:
    return node.firing.late.table


def late_marker(node: WindowAggregate, number: int) -> str | None:
    """What LATE_TABLE says of the late rows of a node: its number among the nodes with state, and the table."""
    table = node.firing.late.table
    return f"{number}/{table.name}" if table is not None else None


def late_fields(node: WindowAggregate) -> tuple[Field, ...]:
    """The fields of the node's input that the values of late rows read, without the bounds of the window."""
    read = set[str]().union(*(columns_of(value) for value in node.firing.late.values))
    bounds = {node.columns.start, node.columns.end}
    return tuple(f for f in node.input.schema if f.name in read - bounds)


# --- rules ----------------------------------------------------------------------------------------------------


@with_folded.register
def _(node: WindowAggregate) -> Node:
    return replace(node, aggregates=tuple(map(folded_item, node.aggregates)))


@pruned.register
def _(node: WindowAggregate, required: Names) -> Node:
    aggregates = tuple(a for a in node.aggregates if a.name in required)
    own = node.columns.names
    read = frozenset(node.keys).union(*(columns_of(a.expression) for a in aggregates), read_by_firing(node.firing))
    read |= all_fields(node.input) if node.shows_rows_to_classes else frozenset()
    # Late rows carry the bounds of the window that this node assigns.
    read = (read | node.times | read_by_window(node.window)) - own if node.window is not None else read | own
    pane, pane_index = (name if name in required else None for name in (node.pane, node.pane_index))
    rebuilt = replace(node, aggregates=aggregates, pane=pane, pane_index=pane_index)
    return replace(rebuilt, input=pruned(node.input, read))


@passes.register
def _(node: WindowAggregate, read: set[str]) -> bool:
    """UNSAFE with grouping sets, where a key is NULL above only, on aggregates and windows, and where somebody gets the
    late rows of all keys."""
    keyed = bool(read) and read <= set(node.keys) and node.grouping_sets is None
    return keyed and node.firing.late.action is LateAction.DROP


@needed_below.register
def _(node: WindowAggregate, needed: Names) -> Names:
    return node.times


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: WindowAggregate) -> str:
    parts = [f"keys {', '.join(node.keys)}"] if node.keys else []
    if node.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(s)})" for s in node.grouping_sets)
        parts.append(f"sets {sets} as {node.grouping_id}")
    parts.append(f"{_window_text(node)}{columns_text(node.columns)}")
    parts += [*firing_text(node.firing), *(["keeping rows"] if keeps_rows(node) else [])]
    panes = [name for name in (node.pane, node.pane_index) if name]
    return f"WindowAggregate({'; '.join([*parts, *map(item_text, node.aggregates), *panes])})"


def _window_text(node: WindowAggregate) -> str:
    if node.window is not None:
        return text_of(node.window, node.time)
    info = window_of(node)
    assert info is not None
    return window_text(info.window)


# --- changes --------------------------------------------------------------------------------------------------


@taken_by.register
def _(node: WindowAggregate) -> str:
    return "an aggregate over windows"


@made_by.register
def _(node: WindowAggregate) -> str:
    return "the windows with RETRACTING"


@instead_of.register
def _(node: WindowAggregate) -> str:
    return "emit each result once (EMIT ON WINDOW CLOSE, or without RETRACTING)"
