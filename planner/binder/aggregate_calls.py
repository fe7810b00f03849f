"""Expressions over groups, taken apart: aggregate calls below, what is computed from them above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream.planner.binder.calls import aggregate_name, check_aggregate_types
from sqlstream.planner.binder.context import Context
from sqlstream.planner.fields import Item, Schema
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.rewriting import node_of, over_children
from sqlstream.planner.type_inference import Types


@dataclass
class Groups:
    """Collects the aggregate calls of one SELECT, each once.

    ``keys`` maps bound grouping expressions to their fields, ``known`` names the window's fields and the grouping id.
    """

    schema: Schema
    keys: Mapping[exp.Expression, str]
    known: frozenset[str]
    context: Context
    names: Names
    calls: dict[exp.Expression, Item] = field(default_factory=dict)

    def rewrite(self, bound: exp.Expression, wish: str | None = None) -> exp.Expression:
        """``bound`` over the fields of the aggregation; ``wish`` names the field if it is one aggregate call."""
        key = self.keys.get(bound)
        if key is not None:
            return field_of(key)
        name = aggregate_name(bound, self.context.catalog)
        if name is not None:
            return field_of(self._aggregate(bound, wish or name))
        if isinstance(bound, exp.Column):
            self._check(bound)
            return bound
        return node_of(over_children(bound, lambda child: self.rewrite(node_of(child))))

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(self.calls.values())

    def _aggregate(self, call: exp.Expression, wish: str) -> str:
        item = self.calls.get(call)
        if item is None:
            check_aggregate_types(call, self.schema, self.context)
            types = Types(self.schema, self.context.catalog.function)
            item = Item(self.names.unique(wish), call, types.of(call), types.nullable(call))
            self.calls[call] = item
        return item.name

    def _check(self, column: exp.Column) -> None:
        # Where a key is wrong, what is missing in GROUP BY is not certain.
        if column.name not in self.known and exp.Null() not in self.keys:
            message = f'column "{column.name}" is neither in GROUP BY nor inside an aggregate'
            hint = f"Add it to GROUP BY, or use an aggregate such as MAX({column.name})."
            self.context.wrong("SS208", message, column, hint)
