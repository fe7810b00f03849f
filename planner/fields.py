"""Fields of rows and the expressions that compute them.

Every field name is unique within a node's schema, so expressions name fields unqualified: an ``exp.Column`` in a
plan expression is quoted and means the field of the input with exactly that name.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.naming import field_of
from sqlstream.planner.rewriting import sql
from sqlstream.types import DataType

FieldNames = frozenset[str]


@dataclass(frozen=True)
class Field:
    """A column of the rows of a plan node. ``time`` marks a time attribute, which windows may be built on."""

    name: str
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None

    @property
    def as_item(self) -> Item:
        """The item of a projection that passes the field on unchanged."""
        return Item(self.name, field_of(self.name), self.type, self.nullable, self.time)


Schema = tuple[Field, ...]


@dataclass(frozen=True)
class Item:
    """A named expression over the fields of the input."""

    name: str
    expression: exp.Expression
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None

    @property
    def field(self) -> Field:
        """The field that the item computes."""
        return Field(self.name, self.type, self.nullable, self.time)

    @property
    def text(self) -> str:
        """``v + 1 AS w``."""
        text = sql(self.expression)
        return text if text == self.name else f"{text} AS {self.name}"
