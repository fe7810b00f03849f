"""Types of what UNNEST reads, as the tables, subqueries and lists of a query tell them.

Spark spells UNNEST of an ARRAY and of a MAP with other generators, and its parser knows no types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sqlstream.planner.fields import Field
from sqlstream.planner.type_inference import Types
from sqlstream.types import UNKNOWN, DataType


class Unnested:
    """Infers the types of the values that the UNNESTs of a query expand. ``columns`` maps the lower-case names of all
    columns of the query's tables to their types.
    """

    def __init__(self, columns: Mapping[str, DataType]) -> None:
        self._columns = columns
        self._inside: set[int] = set()
        self._known_sources: dict[int, tuple[exp.Select, tuple[exp.Expr, ...]]] = {}

    def type_of_argument(self, unnest: exp.Unnest) -> DataType:
        """The type of the value that UNNEST expands; UNKNOWN if only Spark can tell."""
        return self.type_of(unnest.expressions[0])

    def type_of(self, expression: exp.Expr) -> DataType:
        """The type of an expression in the query; UNKNOWN if only Spark can tell."""
        names = {column.name: self._column(column) for column in expression.find_all(exp.Column)}
        return Types(tuple(Field(name, kind) for name, kind in names.items())).of(expression)

    def _column(self, column: exp.Column) -> DataType:
        """The column of the innermost query around that has one of this name."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for source in self._sources(select):
                if not column.table or column.table.casefold() == source.alias_or_name.casefold():
                    kind = self._of_source(source, column.name.casefold())
                    if kind is not None:
                        return kind
            select = select.find_ancestor(exp.Select)
        return UNKNOWN

    def _sources(self, select: exp.Select) -> tuple[exp.Expr, ...]:
        """What may have columns of types that are known: not what is unnested, of which there may be many."""
        if id(select) not in self._known_sources:
            kinds = exp.Table | exp.Values | exp.Subquery
            sources: tuple[exp.Expr, ...] = tuple(s for s in _sources(select) if isinstance(s, kinds))
            self._known_sources[id(select)] = select, sources
        return self._known_sources[id(select)][1]

    def _of_source(self, source: exp.Expr, name: str) -> DataType | None:
        alias = source.args.get("alias")
        renamed = [c.name.casefold() for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if renamed and name not in renamed:
            return None
        position = renamed.index(name) if renamed else None
        if isinstance(source, exp.Values):
            return self.type_of(_at(source, position)) if position is not None else None
        if isinstance(source, exp.Subquery):
            return self._of_query(source.this, name, position)
        if not isinstance(source, exp.Table):
            return None
        given = _given_by_with(source)
        if given is None:
            return self._columns.get(name) if position is None else UNKNOWN
        listed = [c.name.casefold() for c in given.args["alias"].columns]
        if position is None and name in listed:
            position = listed.index(name)
        return self._of_query(given.this, name, position)

    def _of_query(self, query: exp.Expr, name: str, position: int | None) -> DataType | None:
        """A column of the query's result, by its name or its position; UNKNOWN where * is before it."""
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if isinstance(query, exp.Values):
            return self._of_source(query, name) if position is None else self.type_of(_at(query, position))
        if not isinstance(query, exp.Select) or id(query) in self._inside:
            return UNKNOWN
        self._inside.add(id(query))
        try:
            if position is not None:
                stars = any(e.is_star for e in query.expressions[: position + 1])
                return UNKNOWN if stars else self.type_of(_nth(query.expressions, position))
            for expression in query.expressions:
                if not expression.is_star and expression.alias_or_name.casefold() == name:
                    return self.type_of(expression)
            stars = any(expression.is_star for expression in query.expressions)
            kinds = (self._of_source(source, name) for source in self._sources(query) if stars)
            return next((kind for kind in kinds if kind is not None), None)
        finally:
            self._inside.discard(id(query))


def _at(values: exp.Values, position: int) -> exp.Expr:
    row: exp.Expr = values.expressions[0]
    return _nth(row.expressions, position) if isinstance(row, exp.Tuple) else row


def _nth(expressions: list[exp.Expr], position: int) -> exp.Expr:
    """The one at the position, or NULL where there are fewer, which is a mistake that Spark tells."""
    return expressions[position] if position < len(expressions) else exp.Null()


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    start = select.args.get("from_")
    if isinstance(start, exp.From):
        yield start.this
    for join in select.args.get("joins") or ():
        yield join.this


def _given_by_with(table: exp.Table) -> exp.CTE | None:
    """The query of WITH that the name stands for."""
    around = table.parent
    while around is not None:
        given = around.args.get("with_")
        for cte in given.expressions if isinstance(given, exp.With) else ():
            if not table.db and cte.alias.casefold() == table.name.casefold():
                return cte if isinstance(cte, exp.CTE) else None
        around = around.parent
    return None
