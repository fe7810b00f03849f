"""Derived properties of plan nodes: what a node's output looks like beyond its schema.

Each property is one function over node types. The binder asks for windows, tests for the order of rows, EXPLAIN
shows the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.firing import (
    Accumulation,
    AfterProcessingTime,
    AfterSilence,
    AfterWatermark,
    EveryInterval,
    Eviction,
    Firing,
    Never,
    Trigger,
    UserTrigger,
    simple_triggers,
)
from sqlstream.planner.nodes import (
    AlignBarriers,
    AlignedWindow,
    AssignTime,
    AssignWindows,
    Correlate,
    CountWindow,
    Field,
    Filter,
    Insert,
    Lookup,
    Node,
    Output,
    ProcessTable,
    Project,
    RowMeasured,
    Scan,
    Session,
    StatementSet,
    Unary,
    Union,
    UserWindow,
    Window,
    WindowAggregate,
)
from sqlstream.planner.remembering import remembered
from sqlstream.udfs.lookup.options import Order

# --- changelog mode -------------------------------------------------------------------------------------------


@remembered
@singledispatch
def changelog_mode(node: Node) -> frozenset[RowKind]:
    """The kinds of rows that a node emits. Stateless nodes and closed windows pass on or emit inserts."""
    inputs = [changelog_mode(child) for child in node.inputs]
    return frozenset().union(*inputs) if inputs else APPEND_ONLY


@changelog_mode.register
def _(node: Scan) -> frozenset[RowKind]:
    return node.table.changelog


@changelog_mode.register
def _(node: WindowAggregate) -> frozenset[RowKind]:
    """RETRACTING withdraws what it emitted before; only windows that merge take a result back for good."""
    if node.firing.accumulation is not Accumulation.RETRACTING or not fires_again(node.firing):
        return APPEND_ONLY
    window = window_of(node)
    merges = window is not None and isinstance(window.window, (Session, UserWindow))
    return frozenset(RowKind) if merges else frozenset(RowKind) - {RowKind.DELETE}


def fires_again(firing: Firing) -> bool:
    """True where a window may give several results."""
    return firing.late.allow_ms > _delay_ms(firing) or firing.trigger not in (
        None,
        AfterProcessingTime(),
        AfterWatermark(delay_ms=_delay_ms(firing)),
        Never(),
    )


def _delay_ms(firing: Firing) -> int:
    return firing.trigger.delay_ms if isinstance(firing.trigger, AfterWatermark) else 0


_KIND_NAMES = (
    (RowKind.INSERT, "I"),
    (RowKind.UPDATE_BEFORE, "UB"),
    (RowKind.UPDATE_AFTER, "UA"),
    (RowKind.DELETE, "D"),
)


def changelog_text(kinds: frozenset[RowKind]) -> str:
    """``I,UB,UA,D``, as the option ``changelog-mode`` spells it."""
    return ",".join(name for kind, name in _KIND_NAMES if kind in kinds)


# --- time -----------------------------------------------------------------------------------------------------


def dead_letter_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get bad rows, each once."""
    found = [node.on_error.table for node in plan.walk() if isinstance(node, Scan)]
    found += [node.functions.table for node in plan.walk() if isinstance(node, Output | Insert)]
    return tuple({table.name: table for table in found if table is not None}.values())


def time_attributes(node: Node) -> tuple[Field, ...]:
    """The fields that windows may be built on."""
    return tuple(f for f in node.schema if f.time is not None)


@remembered
@singledispatch
def watermark_delay_ms(node: Node) -> int | None:
    """The largest delay of the event-time watermarks below, None where there is none."""
    delays = [d for d in map(watermark_delay_ms, node.inputs) if d is not None]
    return max(delays, default=None)


@watermark_delay_ms.register
def _(node: AssignTime) -> int | None:
    below = watermark_delay_ms(node.input)
    if node.domain is TimeDomain.PROCESSING:
        return below
    return node.delay_ms if below is None else max(below, node.delay_ms)


# --- state and clocks -----------------------------------------------------------------------------------------


@singledispatch
def keeps_state(node: Node) -> bool:
    """True for windows that fire, barriers, lookups that defer, process functions by key, OVER."""
    return False


@keeps_state.register(WindowAggregate)
@keeps_state.register(AlignBarriers)
def _(node: Node) -> bool:
    return True


@keeps_state.register
def _(node: AssignWindows) -> bool:
    """The rows of a window table function on aligned windows come out at once."""
    return not isinstance(node.window, AlignedWindow)


@keeps_state.register
def _(node: Lookup) -> bool:
    return node.options.defers


@keeps_state.register
def _(node: ProcessTable) -> bool:
    return bool(node.keys)


@singledispatch
def awaited_by(node: Node) -> frozenset[TimeDomain]:
    """The domain whose watermark the node itself waits for; windows that count rows wait for none."""
    return frozenset()


@awaited_by.register
def _(node: WindowAggregate) -> frozenset[TimeDomain]:
    return frozenset() if isinstance(node.window, CountWindow) else frozenset({node.domain})


@awaited_by.register
def _(node: AssignWindows) -> frozenset[TimeDomain]:
    return frozenset() if isinstance(node.window, CountWindow | AlignedWindow) else frozenset({node.domain})


@awaited_by.register
def _(node: ProcessTable) -> frozenset[TimeDomain]:
    return frozenset({node.domain}) if node.keys and node.timed else frozenset()


@singledispatch
def uses_processing_time(node: Node) -> bool:
    """True where the node may act by the clock of processing time, or waits for an end of the input that only this
    clock may tell."""
    return False


@uses_processing_time.register
def _(node: AlignBarriers) -> bool:
    return node.holds or node.timeout_ms is not None


@uses_processing_time.register
def _(node: ProcessTable) -> bool:
    return node.clock


@uses_processing_time.register(AssignWindows)
@uses_processing_time.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate) -> bool:
    if node.domain is TimeDomain.PROCESSING and not isinstance(node.window, CountWindow):
        return True
    trigger = node.firing.trigger if isinstance(node, WindowAggregate) else None
    return isinstance(node.window, UserWindow) or any(map(_by_clock, simple_triggers(trigger)))


def _by_clock(trigger: Trigger) -> bool:
    match trigger:
        case AfterProcessingTime() | AfterSilence() | UserTrigger():
            return True
        case EveryInterval(domain=domain):
            return domain is TimeDomain.PROCESSING
    return False


@singledispatch
def acts_by_clock(node: Node) -> bool:
    """True where what the node emits by processing time is emitted before operators above see that time."""
    return False


@acts_by_clock.register(AssignWindows)
@acts_by_clock.register(WindowAggregate)
@acts_by_clock.register(ProcessTable)
def _(node: AssignWindows | WindowAggregate | ProcessTable) -> bool:
    return node.domain is TimeDomain.PROCESSING


@remembered
def operators(node: Node) -> int:
    """How many nodes the plan has, those that stand in several places counted in each."""
    return 1 + sum(map(operators, node.inputs))


# --- windows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowInfo:
    """The window whose columns a node's rows carry; None for a column that was projected away.

    ``keys`` are the fields by which a session was assigned, None once one of them is gone.
    """

    window: Window
    start: str | None
    end: str | None
    time: str | None
    domain: TimeDomain
    keys: tuple[str, ...] | None = ()

    @property
    def columns(self) -> tuple[str | None, str | None, str | None]:
        return self.start, self.end, self.time


@remembered
@singledispatch
def window_of(node: Node) -> WindowInfo | None:
    """The innermost window whose columns the rows of ``node`` carry."""
    return None


@window_of.register(Filter)
@window_of.register(AssignTime)
@window_of.register(Correlate)
@window_of.register(Lookup)
@window_of.register(AlignBarriers)
@window_of.register(Output)
def _(node: Unary) -> WindowInfo | None:
    return window_of(node.input)


@window_of.register
def _(node: AssignWindows) -> WindowInfo | None:
    c = node.columns
    return WindowInfo(node.window, c.start, c.end, c.time, node.domain, node.partition_by)


@window_of.register
def _(node: WindowAggregate) -> WindowInfo | None:
    c = node.columns
    below = window_of(node.input)
    window = node.window or (below.window if below else None)
    assert window is not None, "a window aggregate stands over rows with a window"
    return WindowInfo(window, c.start, c.end, c.time, node.domain, node.keys)


@window_of.register
def _(node: Project) -> WindowInfo | None:
    below = window_of(node.input)
    if below is None:
        return None
    renamed: dict[str, str] = {}
    for item in node.items:
        if isinstance(item.expression, exp.Column):
            renamed.setdefault(item.expression.name, item.name)
    start, end, time = (renamed.get(c) if c else None for c in below.columns)
    if start is None and end is None and time is None:
        return None
    keys = tuple(renamed.get(k, "") for k in below.keys) if below.keys is not None else None
    return WindowInfo(below.window, start, end, time, below.domain, None if keys is None or "" in keys else keys)


@window_of.register
def _(node: Union) -> WindowInfo | None:
    first = window_of(node.branches[0])
    return first if all(window_of(b) == first for b in node.branches) else None


def keeps_rows(node: AssignWindows | WindowAggregate) -> str | None:
    """Why the state holds rows; None where it holds accumulators, or nothing."""
    match node:
        case WindowAggregate(firing=Firing(eviction=Eviction())):
            return "EVICT looks at each"
        case AssignWindows(window=window) if not isinstance(window, AlignedWindow):
            return "they come out when their window fires"
        case WindowAggregate(window=RowMeasured()):
            return "windows of the last rows share no bounds"
    return None


# --- keys -----------------------------------------------------------------------------------------------------


@remembered
@singledispatch
def unique_keys(node: Node) -> frozenset[frozenset[str]]:
    """Sets of fields whose values no two current rows share; the upsert keys of the output."""
    return frozenset()


@unique_keys.register
def _(node: Scan) -> frozenset[frozenset[str]]:
    key = frozenset(node.table.primary_key)
    return frozenset({key}) if key and key <= set(node.columns) else frozenset()


@unique_keys.register(Filter)
@unique_keys.register(AssignTime)
@unique_keys.register(Output)
@unique_keys.register(Insert)
def _(node: Unary) -> frozenset[frozenset[str]]:
    return unique_keys(node.input)


@unique_keys.register
def _(node: Lookup) -> frozenset[frozenset[str]]:
    """A lookup by the whole primary key finds at most one row."""
    key = node.source.primary_key if isinstance(node.source, Table) else ()
    found = bool(key) and set(key) <= {k.name for k in node.keys}
    return unique_keys(node.input) if found else frozenset()


@unique_keys.register
def _(node: Project) -> frozenset[frozenset[str]]:
    renamed = {i.expression.name: i.name for i in node.items if isinstance(i.expression, exp.Column)}
    found = unique_keys(node.input)
    return frozenset(frozenset(renamed[f] for f in key) for key in found if key <= set(renamed))


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


# --- boundedness and order ------------------------------------------------------------------------------------


@remembered
@singledispatch
def bounded(node: Node) -> bool:
    """True where all sources end by themselves."""
    return all(bounded(child) for child in node.inputs)


@bounded.register
def _(node: Scan) -> bool:
    return node.table.bounded


class ArrivalOrder(Enum):
    """How the rows of a node follow each other."""

    SOURCE = "source"  # as the source delivered them
    MIXED = "mixed"  # several sources, each in its order
    WINDOW = "window"  # by the end of windows, unordered within
    ANSWERS = "answers"  # as lookups were answered


@remembered
@singledispatch
def arrival_order(node: Node) -> ArrivalOrder:
    return arrival_order(node.inputs[0]) if node.inputs else ArrivalOrder.SOURCE


@arrival_order.register
def _(node: Union) -> ArrivalOrder:
    return ArrivalOrder.MIXED


@arrival_order.register
def _(node: Lookup) -> ArrivalOrder:
    """In order per key is not the order of the input either."""
    return arrival_order(node.input) if node.options.order is Order.ORDERED else ArrivalOrder.ANSWERS


@arrival_order.register
def _(node: WindowAggregate) -> ArrivalOrder:
    return ArrivalOrder.WINDOW


@arrival_order.register
def _(node: AssignWindows) -> ArrivalOrder:
    return arrival_order(node.input) if isinstance(node.window, AlignedWindow) else ArrivalOrder.WINDOW


@arrival_order.register
def _(node: ProcessTable) -> ArrivalOrder:
    return ArrivalOrder.MIXED if node.keys else arrival_order(node.tables[0])


@arrival_order.register
def _(node: StatementSet) -> ArrivalOrder:
    """Of each table; where they differ, that of which least is known."""
    orders = {arrival_order(insert) for insert in node.inserts}
    if ArrivalOrder.ANSWERS in orders:
        return ArrivalOrder.ANSWERS
    shared = len(node.tables) < len(node.inserts)
    return ArrivalOrder.MIXED if shared or len(orders) > 1 else orders.pop()
