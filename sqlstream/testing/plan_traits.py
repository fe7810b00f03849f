"""What a test harness must know of a plan: its tables and clocks, and how finely its inputs must be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.nodes import (
    AssignTime,
    AssignWindows,
    Correlate,
    Filter,
    GlobalWindow,
    Insert,
    Lookup,
    Node,
    Output,
    Project,
    Scan,
    StatementSet,
    Union,
    UserWindow,
    WindowAggregate,
)
from sqlstream.planner.physical import Gear, PhysicalPlan
from sqlstream.planner.properties import ArrivalOrder, arrival_order
from sqlstream.table_uses import side_tables

_STATELESS = (Scan, AssignTime, Project, Filter, Union, Correlate, Output, Insert, StatementSet)
_CLOCKED = (TimeDomain.PROCESSING, TimeDomain.INGESTION)


@dataclass(frozen=True)
class PlanTraits:
    """Of what runs."""

    plan: PhysicalPlan

    @property
    def root(self) -> Node:
        return self.plan.logical

    @property
    def gear(self) -> Gear:
        return self.plan.gear

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that the plan reads, by lower-case name."""
        scans = (node.table for node in self.root.walk() if isinstance(node, Scan))
        return {table.name.casefold(): table for table in scans if table.connector == "test"}

    @cached_property
    def lookup_tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that lookups ask, by lower-case name."""
        sources = (node.source for node in self.root.walk() if isinstance(node, Lookup))
        tables = (source for source in sources if isinstance(source, Table) and source.connector == "test")
        return {table.name.casefold(): table for table in tables}

    @cached_property
    def times(self) -> dict[str, AssignTime]:
        """By table, the time attribute for whose watermark windows wait."""
        return {mark.table: mark for mark in self.plan.marks}

    @property
    def has_windows(self) -> bool:
        return bool(self.times)

    @cached_property
    def clocked(self) -> tuple[str, ...]:
        """The tables whose watermark is the clock."""
        return tuple(table for table, node in self.times.items() if node.domain in _CLOCKED)

    @cached_property
    def side_tables(self) -> dict[str, Table]:
        """The tables that get rows beside the result, by lower-case name: in a statement set all but the first one."""
        others = self.root.tables[1:] if isinstance(self.root, StatementSet) else ()
        return {table.name.casefold(): table for table in (*others, *side_tables(self.root))}

    @property
    def needs_ticks(self) -> bool:
        """True where processing time must come as ticks of a clock."""
        return self.plan.clocks.needs_ticks

    @property
    def defers(self) -> bool:
        """True where rows may wait in state for the answers to lookups."""
        return self.plan.clocks.lookups_wait

    @property
    def ends_by_tick(self) -> bool:
        """True where only the clock can tell the end of the input."""
        return self.plan.clocks.ends_by_tick

    @property
    def keeps_order(self) -> bool:
        """True where rows come out in the order in which they went in."""
        return arrival_order(self.root) is ArrivalOrder.SOURCE

    @property
    def orders_by_answers(self) -> bool:
        """True where rows come out as the answers to lookups come."""
        return arrival_order(self.root) is ArrivalOrder.ANSWERS

    @property
    def joint(self) -> bool:
        """True where rows and watermarks may share a micro-batch."""
        return all(map(_is_joint, self.root.walk()))

    def delay_ms(self, table: str) -> int | None:
        """By how much the watermark follows the rows of a table; None where no window waits for it."""
        time = None if table in self.clocked else self.times.get(table)
        return None if time is None else time.delay_ms

    def time_of(self, table: Table, values: Sequence[Any], clock_ms: int) -> int | None:
        """The time of a row, in ms, by which windows judge it; None where it is NULL, computed or not needed."""
        time = self.times.get(table.name)
        if time is None or table.name in self.clocked:
            return None if time is None else clock_ms
        names = [c.name for c in table.physical_columns]
        value = values[names.index(time.column)] if time.column in names else None
        return None if value is None else int(value) // 1000


def _is_joint(node: Node) -> bool:
    """Does it emit at once what a row gives alone, or else only where a watermark closes a window?

    One micro-batch or several come to the same then. Triggers, joins and changelogs emit in between.
    """
    if isinstance(node, AssignWindows):
        return not isinstance(node.window, (GlobalWindow, UserWindow))
    if isinstance(node, WindowAggregate):
        return node.firing.is_default and not isinstance(node.window, (GlobalWindow, UserWindow))
    if isinstance(node, Lookup):
        return not node.options.defers
    return isinstance(node, _STATELESS)
