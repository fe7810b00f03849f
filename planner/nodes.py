"""Plan nodes: frozen, each with its inputs and a schema.

Every field name is unique within a node's schema, so expressions name fields unqualified: an ``exp.Column`` in a
plan expression is quoted and means the field of the input with exactly that name. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.catalog import RowKind, Table, TimeDomain
from sqlstream.types import TIMESTAMP, DataType


@dataclass(frozen=True)
class Field:
    """``time`` marks a time attribute: a column that windows may be built on."""

    name: str
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None


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
        return Field(self.name, self.type, self.nullable, self.time)


@dataclass(frozen=True)
class Node:
    """Base of all plan nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    def walk(self) -> Iterator[Node]:
        """This node and all below it, top down."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.inputs))


@dataclass(frozen=True)
class Scan(Node):
    """Physical and metadata columns of a table, pruned to ``columns``, filtered by the pushed ``predicates``.

    ``on_error`` says what happens to its bad rows, which no predicate sees.
    """

    table: Table
    columns: tuple[str, ...]
    predicates: tuple[exp.Expression, ...] = ()
    on_error: OnError = FAIL

    @cached_property
    def schema(self) -> Schema:
        by_name = {c.name: c for c in self.table.columns}
        columns = (by_name[name] for name in self.columns)
        return tuple(Field(c.name, c.type, c.nullable) for c in columns)


@dataclass(frozen=True)
class Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class AssignTime(Unary):
    """Makes ``column`` the time attribute of ``domain`` and its watermark ``max(column) - delay_ms``.

    For PROCESSING and INGESTION the column is added to the schema (the clock at the batch, at the source) and
    ``delay_ms`` is 0. ``table`` names the table whose control rows (end of input, ticks) unite with the rows here.
    ``follows`` is a field of the input whose greatest value is the watermark instead; it ends here.
    """

    column: str
    delay_ms: int
    domain: TimeDomain
    table: str
    follows: str | None = None

    @cached_property
    def schema(self) -> Schema:
        marked = Field(self.column, TIMESTAMP, False, self.domain)
        if self.domain is TimeDomain.EVENT:
            return tuple(
                Field(f.name, f.type, False, self.domain) if f.name == self.column else f
                for f in self.input.schema
                if f.name != self.follows
            )
        return (*self.input.schema, marked)


@dataclass(frozen=True)
class Project(Unary):
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return tuple(item.field for item in self.items)


@dataclass(frozen=True)
class Filter(Unary):
    condition: exp.Expression


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL; fields by position. The branches are projected to the same names and types."""

    branches: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return self.branches[0].schema


@dataclass(frozen=True)
class Correlate(Unary):
    """For each row the rows of a table function, UNNEST or LATERAL VIEW generator; ``outer`` keeps rows without any.

    ``function`` is a call over the input's fields, or an ``exp.Unnest`` of one expression, whose ``offset`` asks for
    the position, counted from 1, as the last output; ``outputs`` are the fields it adds.
    """

    function: exp.Expression
    outputs: Schema
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *self.outputs)


# --- roots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output(Unary):
    """The root of a query: ``names`` are what the user sees, duplicates allowed, one per field of the input.

    ``functions`` says what happens to rows for which a scalar function raises an exception.
    """

    names: tuple[str, ...]
    functions: OnError = FAIL


@dataclass(frozen=True)
class Insert(Unary):
    """The root of INSERT INTO: the input has exactly the physical columns of ``table``, in order and cast.

    ``functions`` as in Output. ``takes``: the kinds of rows that the connector wants; without -U it knows rows by the
    PRIMARY KEY.
    """

    table: Table
    functions: OnError = FAIL
    takes: frozenset[RowKind] = frozenset(RowKind)


@dataclass(frozen=True)
class StatementSet(Node):
    """The root of EXECUTE STATEMENT SET: inserts that run as one query, whose micro-batch is one epoch of all tables.

    Several inserts may write to one table. Its schema is empty: rows go to tables, each with columns of its own.
    """

    inserts: tuple[Insert, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inserts

    @cached_property
    def schema(self) -> Schema:
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the inserts, each once, in the order in which they are named first."""
        return tuple({insert.table.name: insert.table for insert in self.inserts}.values())
