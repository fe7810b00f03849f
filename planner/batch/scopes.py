"""Which columns a SELECT over finished data sees: of its tables, of queries in FROM and of the queries around it.

Types and time attributes are known as far as the text and the catalog say; no plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from sqlstream.grammar.trees import table_function_of
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.catalog import Catalog, Table, TimeDomain
from sqlstream.planner.expressions import conjuncts, has_subquery
from sqlstream.planner.fields import Field
from sqlstream.planner.type_inference import Types
from sqlstream.types import UNKNOWN, DataType


class Column(NamedTuple):
    """A column of a table in FROM, with its type."""

    name: str
    type: DataType = UNKNOWN
    time: TimeDomain | None = None


@dataclass(frozen=True)
class Source:
    """A table in FROM, by the name that it has there; ``columns`` is None if only Spark knows them."""

    name: str
    columns: Sequence[Column] | None

    def has(self, name: str) -> bool:
        """Whether the table has, or may have, a column of that name."""
        return self.columns is None or self.find(name) is not None

    def member(self, path: Sequence[str]) -> Column | None:
        """The column or STRUCT member that a dotted name refers to, split into ``path``: column ``a``, or member ``b``
        of it for ``a.b``. The path may begin with the table's name. None if there is none.
        """
        names = list(path[1:] if len(path) > 1 and path[0].casefold() == self.name.casefold() else path)
        column = self.find(names[0]) if names else None
        for name in names[1:]:
            if column is None:
                return None
            members = (Column(m[0], m[1]) for m in column.type.args if isinstance(m, tuple))
            column = next((m for m in members if m.name.casefold() == name.casefold()), None)
        return column

    def find(self, name: str) -> Column | None:
        """The column of that name, in any case; None where there is none or the columns are unknown."""
        named = (column for column in self.columns or () if column.name.casefold() == name.casefold())
        return next(named, None)


@dataclass
class Scope:
    """The tables in FROM of one SELECT, and the scope of the query around it, None for the outermost."""

    around: Scope | None = None
    sources: list[Source] = field(default_factory=list)

    def owner(self, column: exp.Column) -> Source | None:
        """The table of this query that has the column; None if it is unknown or belongs to an outer query."""
        parts = [part.name for part in column.parts]
        for source in self.sources:
            if len(parts) > 1 and source.name.casefold() == parts[-2].casefold() and source.has(parts[-1]):
                return source  # also where the name of the table has a catalog and a database before it
        for source in self.sources:
            path = parts[1:] if len(parts) > 1 and source.name.casefold() == parts[0].casefold() else parts
            if source.has(path[0]) if len(path) == 1 else source.find(path[0]) is not None:  # else a member of a STRUCT
                return source
        return None

    def level(self, column: exp.Column) -> int | None:
        """In which query a column is found: 0 for this one, 1 for the one around it, and so on; None if none has it."""
        level, scope = 0, self
        while scope.owner(column) is None:
            if scope.around is None:
                return None
            level, scope = level + 1, scope.around
        return level

    def is_outer(self, column: exp.Column) -> bool:
        """Whether the column belongs to an outer query and not to this one."""
        return bool(self.level(column))

    def column(self, expression: exp.Expr) -> Column | None:
        """The column, or the member of a STRUCT column, that an expression names in this scope; None otherwise."""
        if not isinstance(expression, exp.Column):
            return None
        source = self.owner(expression)
        if source is None:
            return None
        column = source.find(expression.name)
        return column if column is not None else source.member([part.name for part in expression.parts])


class Queries(dict[str, Sequence[Column] | None]):
    """A dictionary from the lower-case name of each query of WITH to its result columns, None if they are unknown."""


class Scopes:
    """Determines the scope of each SELECT of a query. ``tables`` are the tables by their names in the query."""

    def __init__(self, catalog: Catalog, tables: dict[str, Table]) -> None:
        self._catalog = catalog
        self._tables = tables
        self._scopes_by_query: dict[tuple[int, int], tuple[exp.Expr, Scope]] = {}
        self._columns_by_query: dict[tuple[int, int], tuple[exp.Expr, Scope | None, Sequence[Column] | None]] = {}

    def scope_of(self, select: exp.Select, queries: Queries, around: Scope | None) -> Scope:
        """The scope of a SELECT that is nested in ``around``. It is cached, because each level of nested queries asks
        for it often.
        """
        key = (id(select), id(around))
        if key not in self._scopes_by_query:
            self._scopes_by_query[key] = (select, self._new_scope(select, queries, around))
        return self._scopes_by_query[key][1]

    def _new_scope(self, select: exp.Select, queries: Queries, around: Scope | None) -> Scope:
        scope = Scope(around)
        start = select.args.get("from_")
        if start is not None:
            scope.sources += self.sources_of(start.this, queries, around)
            for step in steps_of(start.this, select):
                right = step.this if isinstance(step, exp.Join) else step
                scope.sources += self.sources_of(right, queries, around)
        return scope

    def sources_of(self, source: exp.Expr, queries: Queries, around: Scope | None) -> list[Source]:
        name = source.alias_or_name
        if source.args.get("pivots"):
            return [Source(name, None)]
        match source:
            case exp.Table() if isinstance(source.this, exp.Identifier) and table_function_of(source) is None:
                table = self._tables.get(source.name)
                if table is not None:
                    columns: Sequence[Column] | None = [Column(c.name, c.type, c.time) for c in table.columns]
                else:
                    columns = queries.get(source.name.casefold())
            case exp.Subquery(this=exp.Table() as first) if not source.alias and steps_of(first):
                return [
                    one
                    for part in (first, *(s.this if isinstance(s, exp.Join) else s for s in steps_of(first)))
                    for one in self.sources_of(part, queries, around)
                ]
            case exp.Subquery():
                columns = self.columns_of(source.this, self.with_queries(source, queries, around), around)
            case exp.Lateral(this=exp.Subquery() as inner):
                columns = self.columns_of(inner.this, queries, around)
            case _:
                columns = None
        return [Source(name, _renamed(source, columns))]

    def with_queries(self, query: exp.Expr, queries: Queries, around: Scope | None) -> Queries:
        given = query.args.get("with_")
        if given is None:
            return queries
        queries = Queries(queries)
        for cte in given.expressions:
            queries[cte.alias.casefold()] = self.of_cte(cte, queries, around)
        return queries

    def of_cte(self, cte: exp.Expr, queries: Queries, around: Scope | None) -> Sequence[Column] | None:
        return _renamed(cte, self.columns_of(cte.this, queries, around))

    def columns_of(self, query: exp.Expr, queries: Queries, around: Scope | None) -> Sequence[Column] | None:
        """The columns of a query's result; None if some of them are unknown. ``queries`` are the queries of WITH that
        it may name, ``around`` is the scope of the outer query.
        """
        key = (id(query), id(around))
        if key not in self._columns_by_query:
            self._columns_by_query[key] = (query, around, self._columns_of_query(query, queries, around))
        return self._columns_by_query[key][2]

    def _columns_of_query(self, query: exp.Expr, queries: Queries, around: Scope | None) -> Sequence[Column] | None:
        queries = self.with_queries(query, queries, around)
        match query:
            case exp.SetOperation() | exp.Subquery():
                return self.columns_of(query.this, queries, around)
            case exp.Select():
                return self._columns_of_select(query, queries, around)
        return None

    def _columns_of_select(self, select: exp.Select, queries: Queries, around: Scope | None) -> Sequence[Column] | None:
        scope = self.scope_of(select, queries, around)
        fields = tuple(Field(c.name, c.type) for source in scope.sources for c in source.columns or ())
        types = Types(fields, self._catalog.function)
        columns: list[Column] = []
        is_plain = self.keeps_time(select, queries, around)
        for expression in select.expressions:
            if expression.is_star:
                table = expression.table.casefold() if isinstance(expression, exp.Column) else ""
                for source in scope.sources:
                    if table in ("", source.name.casefold()):
                        if source.columns is None:
                            return None
                        columns += source.columns
                continue
            value = expression.unalias()
            column = scope.column(value)
            time = column.time if column is not None and is_plain else None
            if isinstance(value, exp.Anonymous) and value.name.upper() == "PROCTIME":
                time = TimeDomain.PROCESSING
            kind = column.type if column is not None else types.of(value)
            columns.append(Column(expression.alias_or_name, kind, time))
        return columns

    def keeps_time(self, select: exp.Select, queries: Queries, around: Scope | None) -> bool:
        """True if the event times of the tables remain event times in the result of a SELECT: it has no groups,
        DISTINCT or subqueries, and each join limits how far apart the times of joined rows may be.
        """
        if select.args.get("distinct") or self.is_aggregation(select) or _has_subqueries(select):
            return False
        start = select.args.get("from_")
        steps = steps_of(start.this, select) if start is not None else []
        joins = [
            step for step in steps if isinstance(step, exp.Join) and not isinstance(step.this, exp.Unnest | exp.Lateral)
        ]
        scope = self.scope_of(select, queries, around)
        where = [condition for part in parts_of(select, "where") for condition in conjuncts(part)]
        return all(_bounds_times([*conjuncts(join.args.get("on") or exp.true()), *where], scope) for join in joins)

    def is_aggregation(self, select: exp.Select) -> bool:
        clauses = bool(select.args.get("group") or select.args.get("having"))
        return clauses or any(map(self._aggregates, select.expressions))

    def _aggregates(self, expression: exp.Expr) -> bool:
        inside = expression.walk(prune=lambda node: isinstance(node, exp.Query | exp.Window))
        return any(not isinstance(n, exp.Window) and aggregate_name(n, self._catalog) is not None for n in inside)


# --- parts of syntax -----------------------------------------------------------------------------------------


def parts_of(select: exp.Select, key: str) -> list[exp.Expr]:
    """The expressions of the clause ``key`` of a SELECT: the condition of WHERE, HAVING or QUALIFY, or the keys of
    GROUP BY.
    """
    clause = select.args.get(key)
    if clause is None:
        return []
    return list(clause.expressions) if isinstance(clause, exp.Group) else [clause.this]


def _has_subqueries(select: exp.Select) -> bool:
    """Whether the SELECT is joined with subqueries of its expressions."""
    parts = [*select.expressions, *(part for key in ("where", "qualify") for part in parts_of(select, key))]
    return any(has_subquery(part) for part in parts)


def _bounds_times(conditions: Sequence[exp.Expr], scope: Scope) -> bool:
    """Whether conditions compare times of two tables, on both sides."""
    operators: set[type[exp.Expr]] = set()
    for condition in conditions:
        owners = {
            id(scope.owner(column))
            for column in columns_outside(condition)
            if (named := scope.column(column)) is not None and named.time is not None
        }
        if len(owners) > 1:
            operators.add(type(condition.unnest()))
    return bool(operators & {exp.Between, exp.EQ}) or len(operators) > 1


def steps_of(*owners: exp.Expr) -> list[exp.Expr]:
    """The joins and lateral views in FROM, in order. ``owners`` are the nodes of the syntax tree to which the parser
    attaches them: the first table of FROM, and the SELECT.
    """
    return [step for owner in owners for key in ("joins", "laterals") for step in owner.args.get(key) or []]


def columns_outside(expression: exp.Expr) -> Iterator[exp.Column]:
    """The columns that an expression reads, without those inside its subqueries."""
    nodes = expression.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in nodes if isinstance(node, exp.Column))


def _renamed(source: exp.Expr, columns: Sequence[Column] | None) -> Sequence[Column] | None:
    """The columns under the names that the alias gives them."""
    alias = source.args.get("alias")
    names = [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return columns
    if columns is None or len(columns) != len(names):
        return [Column(name) for name in names]
    return [column._replace(name=name) for name, column in zip(names, columns, strict=True)]
