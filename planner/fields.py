"""Fields of rows: their names, the expressions that compute them, and their provenance.

Every field name is unique within a node's schema, so expressions name fields unqualified: an ``exp.Column`` in a
plan expression is quoted and means the field of the input with exactly that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import folded, sql
from sqlstream.planner.functions.calls import spark_name
from sqlstream.types import DataType

# --- names -----------------------------------------------------------------------------------------------------
# They are unique within a schema, without regard to case, as Spark compares them.

_PLAIN = re.compile(r"[A-Za-z]\w*")


class UniqueNames:
    """Makes names that no other field has: ``id``, ``id_1``, ``id_2``."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = {name.casefold() for name in used}

    def unique(self, wish: str) -> str:
        """The name ``wish``, or a name derived from it that is not used yet."""
        name, count = wish, 0
        while name.casefold() in self._used:
            count += 1
            name = f"{wish}_{count}"
        self._used.add(name.casefold())
        return name


def field_name(shown: str, expression: exp.Expr) -> str:
    """A readable name for the field that holds the value of ``expression``: ``shown``, the column's name in the result,
    if it is a plain identifier; else the name of the called function, or ``expr``.
    """
    if _PLAIN.fullmatch(shown):
        return shown
    inner = expression.this if isinstance(expression, exp.Filter) else expression
    return spark_name(inner) or "expr"


def shown_name(expression: exp.Expr) -> str:
    """The name that the column of an expression without alias gets: the last part of a column's name, else the
    expression's text.
    """
    match expression:
        case exp.Column() | exp.Dot():
            return expression.name
        case exp.Paren():
            return shown_name(expression.this)
    return expression.sql(SqlStream, normalize_functions="lower", comments=False)


def field_of(name: str) -> exp.Column:
    """The reference to a field in expressions of the plan."""
    return exp.column(exp.to_identifier(name, quoted=True))


FieldNames = frozenset[str]


@dataclass(frozen=True)
class Field:
    """A column of the rows of a plan node. ``time``: it is a time attribute of this time domain, by which windows may
    be assigned; None for other columns.
    """

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
    """A named expression of a projection, over the fields of the input."""

    name: str
    expression: exp.Expression
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None

    @property
    def field(self) -> Field:
        """The field that the item computes."""
        return Field(self.name, self.type, self.nullable, self.time)

    def with_constants_folded(self) -> Item:
        """The item with the constant parts of its expression computed."""
        return replace(self, expression=folded(self.expression))

    @property
    def text(self) -> str:
        """The item as SQL: ``v + 1 AS w``."""
        text = sql(self.expression)
        return text if text == self.name else f"{text} AS {self.name}"


# --- provenance ------------------------------------------------------------------------------------------------
# What fields are computed from, as expressions over columns of tables. Fingerprints of checkpoints compare it, so that
# a renamed field changes nothing there; lineage shows it.

Provenance = Mapping[str, str]
"""By the name of a field, the SQL text of what it is computed from."""

_NEEDS_NO_PARENTHESES = re.compile(r"[\w.]+(\([^()]*\))?")
_WORD = re.compile(r"\w+")
_with_tables: ContextVar[bool] = ContextVar("with_tables", default=False)


def qualified(table: str, column: str) -> str:
    """A column with its table, as lineage reads it again: names with special characters stand in backticks."""
    return ".".join(name if _WORD.fullmatch(name) else "`" + name.replace("`", "``") + "`" for name in (table, column))


def traced(expression: exp.Expr, provenance: Provenance) -> str:
    """The text of an expression in which each field is replaced by its provenance, that is by the table columns from
    which it is computed.
    """

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.name not in provenance:
            return node
        text = provenance[node.name]
        return exp.Var(this=text if _NEEDS_NO_PARENTHESES.fullmatch(text) else f"({text})")

    return sql(expression.copy().transform(replaced))


@contextmanager
def qualified_by_tables() -> Iterator[None]:
    """Returns a context manager. Inside it, provenance names columns with their tables; the fingerprints of checkpoints
    are computed outside of it, without tables.
    """
    token = _with_tables.set(True)
    try:
        yield
    finally:
        _with_tables.reset(token)


def is_qualified_by_tables() -> bool:
    """Whether provenance currently qualifies columns by their tables."""
    return _with_tables.get()


# --- facts of checkpoints -------------------------------------------------------------------------------------


def keys_fact(rows: Schema, keys: tuple[str, ...], provenance: Provenance) -> str:
    """The provenance and types of the ``keys`` of rows as text. It is part of a checkpoint's fingerprint, because a
    changed key makes the stored state useless.
    """
    types = {f.name: f.type for f in rows}
    return ", ".join(f"{provenance[k]} {types[k]}" for k in keys) or "none"


def fields_fact(fields: Schema, provenance: Provenance) -> str:
    """The provenance and types of the columns of stored rows, by position, as text. It is part of a checkpoint's
    fingerprint.
    """
    return ", ".join(f"{provenance[f.name]} {f.type}" for f in fields)
