"""What a test harness must know of a plan: its tables and clocks, and how finely its inputs must be cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from sqlstream.planner.catalog import Table, TimeDomain
from sqlstream.planner.lowering.lower import watermarked_nodes
from sqlstream.planner.nodes import (
    AssignTime,
    AssignWindows,
    Correlate,
    Filter,
    Insert,
    Node,
    Output,
    Project,
    Scan,
    Union,
    WindowAggregate,
)
from sqlstream.planner.properties import ArrivalOrder, arrival_order

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# They emit at once what a row gives alone, or else only where a watermark closes a window: one micro-batch or several
# come to the same. An operator that emits in between (a trigger, a join, a changelog) does not belong here.
_JOINT = (Scan, AssignTime, Project, Filter, Union, Correlate, AssignWindows, WindowAggregate, Output, Insert)


@dataclass(frozen=True)
class PlanTraits:
    root: Node

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables with the connector ``test`` that the plan reads, by lower-case name."""
        scans = (node.table for node in self.root.walk() if isinstance(node, Scan))
        return {table.name.casefold(): table for table in scans if table.connector == "test"}

    @cached_property
    def times(self) -> dict[str, AssignTime]:
        """By table, the time attribute for whose watermark windows wait."""
        return {node.table: node for node in watermarked_nodes(self.root)}

    @property
    def domain(self) -> TimeDomain | None:
        """The one clock that closes the plan's windows; None for a plan that waits for none."""
        return next((node.domain for node in self.times.values()), None)

    @property
    def has_windows(self) -> bool:
        return bool(self.times)

    @property
    def is_clocked(self) -> bool:
        """True where windows close by the clock, not by event time."""
        return self.domain in (TimeDomain.PROCESSING, TimeDomain.INGESTION)

    @property
    def keeps_order(self) -> bool:
        """True where rows come out in the order in which they went in."""
        return arrival_order(self.root) is ArrivalOrder.SOURCE

    @property
    def joint(self) -> bool:
        """True where rows and watermarks may share a micro-batch."""
        return all(isinstance(node, _JOINT) for node in self.root.walk())

    def delay_ms(self, table: str) -> int | None:
        """By how much the watermark follows the rows of a table; None where no window waits for it."""
        time = None if self.is_clocked else self.times.get(table)
        return None if time is None else time.delay_ms

    def time_of(self, table: Table, values: Sequence[Any], clock_ms: int) -> int | None:
        """The time of a row, in ms, by which windows judge it; None where it is NULL, computed or not needed."""
        time = self.times.get(table.name)
        if time is None or self.is_clocked:
            return None if time is None else clock_ms
        names = [c.name for c in table.physical_columns]
        value = values[names.index(time.column)] if time.column in names else None
        if value is None:
            return None
        moment: datetime = value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
