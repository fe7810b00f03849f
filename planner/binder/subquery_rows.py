"""The rows of a subquery as the side of a join: all of them, each once, or one per key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.binder.correlation import Correlation
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, extended
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.types import BIGINT, BOOLEAN


@dataclass(frozen=True)
class SubqueryRows:
    """``values`` are the fields of the subquery's own columns, ``keys`` those that its conditions read. ``ttl_ms``: how
    long rows are remembered that are told apart here, 0 for ever.

    Expressions name the fields of the scopes that are made here by ``reference``: ``value_0``, ``key_0``, ….
    """

    node: Node
    values: tuple[Field, ...]
    keys: tuple[Field, ...]
    read: Correlation
    ttl_ms: int

    def reference(self, name: str) -> exp.Column:
        return self.read.reference(name)

    @property
    def names_of_keys(self) -> frozenset[str]:
        """What ``reference`` calls them."""
        return frozenset(self.reference(name).name for name in _numbered("key", self.keys))

    @property
    def at_most_one(self) -> bool:
        """Is there one row at most for each row of the query around?"""
        names = {field.name for field in self.keys}
        return any(key <= names for key in self.node.unique_keys)

    def all(self) -> Scope:
        return self._scope(self.node, {})

    def with_there(self) -> Scope:
        """With ``there``, which is TRUE."""
        there = self._there()
        return self._scope(extended(self.node, [there]), {"there": there.name})

    def distinct(self, *, values: bool) -> Scope:
        """Each key, with its ``values`` or without, once, with ``there``, which is TRUE."""
        there = self._there()
        fields = (*self.keys, *(self.values if values else ()))
        below = Project(self.node, (there, *(field.as_item for field in fields)))
        node = GroupAggregate(below, tuple(f.name for f in below.schema), ttl_ms=self.ttl_ms)
        return self._scope(node, {"there": there.name})

    def nulls(self) -> Scope:
        """Each key once, with ``nulls``: whether one of its rows has NULL as the value."""
        (value,), names = self.values, self._names()
        rows, filled = (
            Item(names.unique(name), exp.Count(this=this), BIGINT, False)
            for name, this in (("rows", exp.Star()), ("filled", field_of(value.name)))
        )
        node = self._grouped(rows, filled)
        some = exp.GT(this=field_of(rows.name), expression=field_of(filled.name))
        nulls = Item(names.unique("nulls"), some, BOOLEAN, False)
        return self._scope(
            Project(node, (*(field.as_item for field in node.schema[: len(self.keys)]), nulls)), {"nulls": nulls.name}
        )

    def single(self) -> Scope:
        """Each key once, with a value and ``rows``, their number."""
        (value,), names = self.values, self._names()
        any_value = Item(value.name, exp.AnyValue(this=field_of(value.name)), value.type, True)
        rows = Item(names.unique("rows"), exp.Count(this=exp.Star()), BIGINT, False)
        return self._scope(self._grouped(any_value, rows), {"rows": rows.name})

    def _grouped(self, *aggregates: Item) -> GroupAggregate:
        return GroupAggregate(self.node, tuple(f.name for f in self.keys), aggregates, ttl_ms=self.ttl_ms)

    def _there(self) -> Item:
        return Item(self._names().unique("there"), exp.true(), BOOLEAN, False)

    def _names(self) -> Names:
        return Names(f.name for f in self.node.schema)

    def _scope(self, node: Node, also: dict[str, str]) -> Scope:
        names = {**_numbered("key", self.keys), **_numbered("value", self.values), **also}
        own = {field.name for field in node.schema}
        return Scope(
            node,
            tuple(Visible(self.reference(n).name, f, starred=False) for n, f in names.items() if f in own),
        )


def _numbered(name: str, fields: Iterable[Field]) -> dict[str, str]:
    return {f"{name}_{i}": field.name for i, field in enumerate(fields)}
