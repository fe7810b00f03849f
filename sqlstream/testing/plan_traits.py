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
    """The properties of a physical plan that decide how it can be tested, such as its input tables, its time
    attributes, and whether it needs processing time.
    """

    plan: PhysicalPlan

    @property
    def root(self) -> Node:
        """The logical plan."""
        return self.plan.logical

    @property
    def engine(self) -> Engine:
        """The engine that runs the plan: the columnar one with kernels, or Spark's own operators."""
        return self.plan.engine

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that the plan scans, as a dictionary by lower-case name."""
        scans = (node.table for node in self.root.walk() if isinstance(node, Scan))
        return {table.name.casefold(): table for table in scans if table.connector == "test"}

    @cached_property
    def reads_by_itself(self) -> bool:
        """True where the plan has sources to which the test writes no rows: VALUES, or other connectors."""
        return any(node.table.connector != "test" for node in self.root.walk() if isinstance(node, Scan))

    @cached_property
    def lookup_tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` in which lookup joins look up rows, as a dictionary by lower-case
        name.
        """
        tables = looked_up_tables(self.root)
        return {table.name.casefold(): table for table in tables if table.connector == "test"}

    @cached_property
    def times(self) -> dict[str, AssignTime]:
        """A dictionary from the name of each table whose watermark some operator waits for to the plan node that
        assigns its time attribute.
        """
        return {mark.table: mark for mark in self.plan.marks}

    @property
    def has_windows(self) -> bool:
        """True if some operator waits for a watermark, as windows do."""
        return bool(self.times)

    @cached_property
    def clocked(self) -> tuple[str, ...]:
        """The names of the tables whose time attribute is processing or ingestion time, so that the clock of the test
        is their watermark.
        """
        return tuple(table for table, node in self.times.items() if node.domain in _CLOCKED)

    @cached_property
    def side_tables(self) -> dict[str, Table]:
        """The tables that receive side outputs (late rows, dead letters), as a dictionary by lower-case name. For a
        statement set also the targets of all its INSERTs but the first.
        """
        others = self.root.tables[1:] if isinstance(self.root, StatementSet) else ()
        return {table.name.casefold(): table for table in (*others, *side_tables(self.root))}

    @property
    def needs_ticks(self) -> bool:
        """True where operators need ticks: control rows that tell them the present processing time."""
        return self.plan.clocks.needs_ticks

    @property
    def defers(self) -> bool:
        """True if rows may be stored until a lookup is answered."""
        return WaitsFor.ANSWERS in self.plan.clocks.waiting

    @property
    def ends_by_tick(self) -> bool:
        """True where only a tick (a control row with the present processing time) can announce the end of the input,
        because no operator waits for a watermark.
        """
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
        """The event time of a row of ``table`` in milliseconds since 1970; for tables with processing or ingestion time
        it is ``clock_ms``, the test's clock.

        None if the time is NULL or computed from other columns, or if no operator waits for the table's watermark.
        ``values`` are those of the physical columns.
        """
        time = self.times.get(table.name)
        if time is None or table.name in self.clocked:
            return None if time is None else clock_ms
        names = [c.name for c in table.physical_columns]
        value = values[names.index(time.column)] if time.column in names else None
        return None if value is None else int(value) // 1000
