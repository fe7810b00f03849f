"""What a test harness must know of a plan: its tables and clocks, and how finely its inputs must be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Scan, StatementSet
from sqlstream.planner.physical import Engine, PhysicalPlan
from sqlstream.planner.properties import ArrivalOrder, WaitsFor
from sqlstream.plans import looked_up_tables, side_tables

_CLOCKED = (TimeDomain.PROCESSING, TimeDomain.INGESTION)


@dataclass(frozen=True)
class PlanTraits:
    """Those properties of a physical plan on which it depends how a test runs it."""

    plan: PhysicalPlan

    @property
    def root(self) -> Node:
        """The logical plan."""
        return self.plan.logical

    @property
    def engine(self) -> Engine:
        """The engine that runs the plan."""
        return self.plan.engine

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that the plan reads, by lower-case name."""
        scans = (node.table for node in self.root.walk() if isinstance(node, Scan))
        return {table.name.casefold(): table for table in scans if table.connector == "test"}

    @cached_property
    def reads_by_itself(self) -> bool:
        """True where the plan has sources to which the test writes no rows: VALUES, or other connectors."""
        return any(node.table.connector != "test" for node in self.root.walk() if isinstance(node, Scan))

    @cached_property
    def lookup_tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that lookups query, by lower-case name."""
        tables = looked_up_tables(self.root)
        return {table.name.casefold(): table for table in tables if table.connector == "test"}

    @cached_property
    def times(self) -> dict[str, AssignTime]:
        """The time attributes for whose watermark operators wait, as a dictionary by table."""
        return {mark.table: mark for mark in self.plan.marks}

    @property
    def has_windows(self) -> bool:
        """True if some operator waits for a watermark, as windows do."""
        return bool(self.times)

    @cached_property
    def clocked(self) -> tuple[str, ...]:
        """The tables whose watermark is the clock of processing time."""
        return tuple(table for table, node in self.times.items() if node.domain in _CLOCKED)

    @cached_property
    def side_tables(self) -> dict[str, Table]:
        """The tables that receive side outputs, by lower-case name; of a statement set all tables but the first."""
        others = self.root.tables[1:] if isinstance(self.root, StatementSet) else ()
        return {table.name.casefold(): table for table in (*others, *side_tables(self.root))}

    @property
    def needs_ticks(self) -> bool:
        """True where operators need ticks of processing time."""
        return self.plan.clocks.needs_ticks

    @property
    def defers(self) -> bool:
        """True if rows may be stored until a lookup is answered."""
        return WaitsFor.ANSWERS in self.plan.clocks.waiting

    @property
    def ends_by_tick(self) -> bool:
        """True where only a tick can announce the end of the input."""
        return self.plan.clocks.ends_by_tick

    @property
    def keeps_order(self) -> bool:
        """True where rows are emitted in the order of the input."""
        return self.root.arrival_order is ArrivalOrder.SOURCE

    @property
    def orders_by_answers(self) -> bool:
        """True where rows are emitted in the order in which lookups are answered."""
        return self.root.arrival_order is ArrivalOrder.ANSWERS

    @property
    def joint(self) -> bool:
        """True if rows and advances of the watermark may share a micro-batch without changing the result."""
        return all(node.is_batch_invariant for node in self.root.walk())

    def delay_ms(self, table: str) -> int | None:
        """The delay of the watermark of a table; None where no window waits for it."""
        time = None if table in self.clocked else self.times.get(table)
        return None if time is None else time.delay_ms

    def time_of(self, table: Table, values: Sequence[Any], clock_ms: int) -> int | None:
        """The event time of a row in milliseconds since 1970; None if it is NULL, computed from other columns, or not
        needed.
        """
        time = self.times.get(table.name)
        if time is None or table.name in self.clocked:
            return None if time is None else clock_ms
        names = [c.name for c in table.physical_columns]
        value = values[names.index(time.column)] if time.column in names else None
        return None if value is None else int(value) // 1000
