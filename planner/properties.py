"""Derived properties of plan nodes: what a node's output looks like beyond its schema.

Each property is one function over node types. The binder asks for windows, tests for the order of rows, EXPLAIN
shows the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.nodes import (
    AssignTime,
    Correlate,
    Field,
    Filter,
    Insert,
    Node,
    Output,
    Project,
    Scan,
    StatementSet,
    Unary,
    Union,
)
from sqlstream.planner.remembering import remembered
from sqlstream.planner.windows import Window

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


_KIND_NAMES = (
    (RowKind.INSERT, "I"),
    (RowKind.UPDATE_BEFORE, "UB"),
    (RowKind.UPDATE_AFTER, "UA"),
    (RowKind.DELETE, "D"),
)


def changelog_text(kinds: frozenset[RowKind]) -> str:
    """``I,UB,UA,D``, as the option ``changelog-mode`` spells it."""
    return ",".join(name for kind, name in _KIND_NAMES if kind in kinds)


# --- tables ---------------------------------------------------------------------------------------------------


def dead_letter_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get bad rows, each once."""
    tables = [node.on_error.table for node in plan.walk() if isinstance(node, Scan)]
    tables += [node.functions.table for node in plan.walk() if isinstance(node, Output | Insert)]
    return tuple({table.name: table for table in tables if table is not None}.values())


@singledispatch
def side_table(node: Node) -> Table | None:
    """The table that gets rows of the node beside its result, dead letters apart."""
    return None


@singledispatch
def table_read(node: Node) -> tuple[Table, tuple[str, ...]] | None:
    """The table that the node reads or asks, with the columns that it needs of it."""
    return None


@table_read.register
def _(node: Scan) -> tuple[Table, tuple[str, ...]] | None:
    return node.table, columns_to_read(node.table, node.columns, node.on_error)


# --- time -----------------------------------------------------------------------------------------------------


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
    """True for operators whose rows meet others: windows that fire, joins, lookups that defer, …"""
    return False


@singledispatch
def awaited_by(node: Node) -> frozenset[TimeDomain]:
    """The domain whose watermark the node itself waits for; windows that count rows wait for none."""
    return frozenset()


@singledispatch
def uses_processing_time(node: Node) -> bool:
    """True where the node may act by the clock of processing time, or waits for an end of the input that only this
    clock may tell."""
    return False


@singledispatch
def acts_by_clock(node: Node) -> bool:
    """True where what the node emits by processing time is emitted before operators above see that time."""
    return False


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
@window_of.register(Output)
def _(node: Unary) -> WindowInfo | None:
    return window_of(node.input)


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


@singledispatch
def keeps_rows(node: Node) -> str | None:
    """Why the state of windows holds rows; None where it holds accumulators, or nothing."""
    return None


@singledispatch
def sees_barriers(node: Node) -> bool:
    """True for windows that may fire when a barrier was aligned."""
    return False


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
def _(node: Project) -> frozenset[frozenset[str]]:
    renamed = {i.expression.name: i.name for i in node.items if isinstance(i.expression, exp.Column)}
    keys = unique_keys(node.input)
    return frozenset(frozenset(renamed[f] for f in key) for key in keys if key <= set(renamed))


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
def _(node: StatementSet) -> ArrivalOrder:
    """Of each table; where they differ, that of which least is known."""
    orders = {arrival_order(insert) for insert in node.inserts}
    if ArrivalOrder.ANSWERS in orders:
        return ArrivalOrder.ANSWERS
    shared = len(node.tables) < len(node.inserts)
    return ArrivalOrder.MIXED if shared or len(orders) > 1 else orders.pop()


@singledispatch
def is_joint(node: Node) -> bool:
    """True where one micro-batch or several come to the same rows: the node emits at once what rows give whatever else
    comes, or else only what a watermark has passed. Triggers, changelogs and processing time tell the batches apart."""
    return False


@is_joint.register(Scan)
@is_joint.register(AssignTime)
@is_joint.register(Project)
@is_joint.register(Filter)
@is_joint.register(Union)
@is_joint.register(Correlate)
@is_joint.register(Output)
@is_joint.register(Insert)
@is_joint.register(StatementSet)
def _(node: Node) -> bool:
    return True
