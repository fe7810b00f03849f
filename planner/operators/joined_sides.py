"""What all joins of streams answer alike, whether they have two sides or more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.expressions import sql
from sqlstream.planner.fields import Provenance
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Project, Scan, Union
from sqlstream.planner.properties import ArrivalOrder, FieldsRead, Keys

SideKeys = tuple[exp.Expression, ...]
"""The expressions over the fields of a side that a join compares."""


@dataclass(frozen=True)
class JoinedSides(Node):
    """Base of joins of streams on equal keys. The fields of all inputs, its sides, have different names."""

    keeps_state = True
    takes_branches = True

    @property
    def null_safe(self) -> tuple[bool, ...]:
        """For each key whether NULL equals NULL."""
        raise NotImplementedError

    def keys_of_side(self, port: int) -> SideKeys:
        """What is compared of a side, counted from 0: as many expressions for each."""
        raise NotImplementedError

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        return ArrivalOrder.MIXED

    @property
    def producer_name(self) -> str:
        return self.consumer_name

    @property
    def port_count(self) -> int:
        return len(self.inputs)

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return tuple(map(sql, self.keys_of_side(0)))

    @property
    def depends_on_arrival_order(self) -> bool:
        """True where a side has changes; inserted rows give the same results in any order."""
        return any(side.changelog_mode != APPEND_ONLY for side in self.inputs)

    @property
    def columnar_only_clause(self) -> str | None:
        return "a join of streams"

    @property
    def column_provenance(self) -> Provenance:
        return {name: text for side in self.inputs for name, text in side.column_provenance.items()}

    def fields_of_side(self, port: int, time: str | None = None) -> FieldsRead | None:
        """The fields that the exchange of a side reads. ``time`` is the side's time field, None for joins that do not
        depend on time.
        """
        names = column_names(self.keys_of_side(port))
        fields = (field.name for field in self.inputs[port].schema)
        return None if names is None else FieldsRead(tuple(dict.fromkeys([*names, *fields])), names, time)

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        return self.fields_of_side(port)

    def finds_one_row(self, port: int) -> bool:
        """True where equal keys find at most one row of a side."""
        names = {value.name for value in self.keys_of_side(port) if isinstance(value, exp.Column)}
        unique: Keys = self.inputs[port].unique_keys
        return any(key <= names for key in unique)


def column_names(keys: SideKeys) -> tuple[str, ...] | None:
    """The names of the fields that keys are; None where one of them is computed."""
    names = tuple(value.name for value in keys if isinstance(value, exp.Column))
    return names if len(names) == len(keys) else None


def joined_scans(plan: Node) -> Mapping[str, tuple[Scan, ...]]:
    """By the name of a table the scans whose rows are joined to its rows as they are: results of these joins may have
    the columns of both. Tables below aggregates have no rows there.
    """
    joined: dict[str, tuple[Scan, ...]] = {}
    for node in plan.walk():
        sides = node.inputs if isinstance(node, JoinedSides) else ()
        for side in sides:
            others = [scan for other in sides if other is not side for scan in _scans_of_rows(other)]
            for scan in _scans_of_rows(side):
                known = joined.get(scan.table.name, ())
                joined[scan.table.name] = (*known, *(other for other in others if other not in known))
    return joined


def _scans_of_rows(node: Node) -> Iterator[Scan]:
    """The scans whose rows, each by itself, are those of the node."""
    if isinstance(node, Scan):
        yield node
    elif isinstance(node, JoinedSides | AssignTime | Project | Filter | Correlate | Union):
        for below in node.inputs:
            yield from _scans_of_rows(below)
