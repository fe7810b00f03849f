"""Relations: queries as text of several dialects, with their columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.changes import TableKind

OURS, DUCKDB, SPARK = "ours", "duckdb", "spark"

Text = Callable[[str], str]
"""SQL in a dialect."""

INT, TEXT, OTHER, TIME = "int", "text", "other", "time"


@dataclass(frozen=True)
class Column:
    """``kind``: what may be done with it; columns of kind OTHER are only shown."""

    name: str
    kind: str


@dataclass(frozen=True)
class Relation:
    """``text`` is a query. ``table``: the table that it is, with its time attribute."""

    text: Text
    columns: tuple[Column, ...]
    table: TableKind | None = None

    def of(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]

    def named(self, alias: str) -> Text:
        """In FROM."""
        return lambda dialect: f"({self.text(dialect)}) AS {alias}"


@dataclass(frozen=True)
class Query:
    """``views``: their names and queries."""

    relation: Relation
    views: tuple[tuple[str, Relation], ...] = ()
    as_views: bool = False

    def ours(self) -> str:
        return self._with(OURS)

    def definitions(self) -> str:
        """Statements of ours that stand before the query."""
        if not self.as_views:
            return ""
        return "".join(f"CREATE VIEW {name} AS {view.text(OURS)};\n" for name, view in self.views)

    def reference(self, dialect: str) -> str:
        return self._with(dialect)

    def _with(self, dialect: str) -> str:
        text = self.relation.text(dialect)
        if not self.views or (self.as_views and dialect == OURS):
            return text
        named = ", ".join(f"{name} AS ({view.text(dialect)})" for name, view in self.views)
        return f"WITH {named} {text}"


def same(text: str) -> Text:
    return lambda dialect: text


def listed(x: str, kept: str) -> Text:
    """A list of values in an order."""

    def text(dialect: str) -> str:
        if dialect == DUCKDB:
            return f"STRING_AGG(DISTINCT {x}, ',' ORDER BY {x}){kept}"
        return f"LISTAGG(DISTINCT {x}, ',') WITHIN GROUP (ORDER BY {x}){kept}"

    return text


def join_word(kind: str, dialect: str) -> str:
    if dialect == DUCKDB and kind in ("LEFT SEMI ", "LEFT ANTI "):
        kind = kind.removeprefix("LEFT ")
    return f"{kind}JOIN "


def equality(dialect: str) -> str:
    return "<=>" if dialect == SPARK else "IS NOT DISTINCT FROM"
