"""Parts of a query over finished data that Spark SQL does not analyze, found in its syntax and its tables' columns.

Such a query runs as a stream where a stream executes it. Most are subqueries that read the query around them: Spark
joins them below the operator that has them, and not every operator of it can have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.spans import span_of
from sqlstream.planner.batch.asof import is_asof
from sqlstream.planner.batch.scopes import Queries, Scope, Scopes, columns_outside
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.catalog import Catalog, Table
from sqlstream.planner.expressions import has_grouping_sets, own_expressions, rewritten
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS


@on_deep_stack
def spark_gaps(query: exp.Expr, catalog: Catalog, tables: dict[str, Table]) -> list[tuple[str, Span | None]]:
    """The parts of a query that Spark SQL does not execute, as pairs of the part's name for messages and its span.

    ``tables`` maps the names of tables in the query to the tables.
    """
    gaps = _Gaps(catalog, tables)
    of_selects = [gap for select in query.find_all(exp.Select) for gap in gaps.of_select(select)]
    return of_selects + [gap for operation in query.find_all(exp.SetOperation) for gap in gaps.of_set(operation)]


@on_deep_stack
def with_values_of_groups(query: exp.Expr, catalog: Catalog, tables: dict[str, Table]) -> exp.Expr:
    """Returns the query with ANY_VALUE around each scalar subquery that reads keys of GROUP BY.

    Such a subquery has one value in each group, but Spark accepts it only inside an aggregate.
    """
    gaps = _Gaps(catalog, tables)

    def wrapped(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Subquery) or not gaps.is_value_of_group(node):
            return node
        return exp.AnyValue(this=node)

    return rewritten(query, wrapped)


class ScopesOfQuery(Scopes):
    """The scopes of all SELECTs of one query, each inside the scopes of the queries around it."""

    def __init__(self, catalog: Catalog, tables: dict[str, Table]) -> None:
        super().__init__(catalog, tables)
        self._scopes_of_selects: dict[int, Scope] = {}
        self._given: dict[int, Queries] = {}

    def scope(self, select: exp.Select) -> Scope:
        """The tables and columns that a SELECT may name. A query in FROM does not see those of the query around it,
        except after LATERAL.
        """
        if id(select) not in self._scopes_of_selects:
            parent = select.find_ancestor(exp.Select)
            around = self.scope(parent) if isinstance(parent, exp.Select) else None
            if around is not None and isinstance(parent, exp.Select) and _is_source(select, parent):
                around = around.around
            self._scopes_of_selects[id(select)] = self.scope_of(select, self.queries(select), around)
        return self._scopes_of_selects[id(select)]

    def queries(self, node: exp.Expr | None) -> Queries:
        """The queries of WITH whose names may be used at ``node``."""
        if node is None:
            return Queries()
        if id(node) not in self._given:
            outer = self.queries(node.parent)
            self._given[id(node)] = self.with_queries(node, outer, None) if node.args.get("with_") else outer
        return self._given[id(node)]

    def keeps_time_in(self, select: exp.Select) -> bool:
        """Whether the event times of the tables in FROM of a SELECT remain event times in its result."""
        return self.keeps_time(select, self.queries(select), self.scope(select).around)


class _Gaps(ScopesOfQuery):
    def __init__(self, catalog: Catalog, tables: dict[str, Table]) -> None:
        super().__init__(catalog, tables)
        self._own_catalog = catalog
        self._outer: dict[int, Sequence[tuple[exp.Column, Scope | None]]] = {}

    def of_select(self, select: exp.Select) -> Iterator[tuple[str, Span | None]]:
        """What Spark does not analyze of a SELECT, without its subqueries."""
        if select.args.get("distinct") and self._has_map(select):
            yield "DISTINCT of a MAP, which Spark does not compare,", span_of(select)
        for join in select.args.get("joins") or ():
            if isinstance(join.this, exp.Unnest) and _has_condition(join) and self._reads_map(join.this, select):
                yield "UNNEST of a MAP with a condition, which Spark does not execute,", span_of(join)
            if _is_odd(join) and isinstance(join.this, exp.Unnest | exp.Lateral):
                yield "a join of this kind with UNNEST or LATERAL, which Spark lacks,", span_of(join)
        yield from self._outer_columns(select)
        for query in self._subqueries(select):
            if self._is_refused(query, select):
                yield "a subquery in this place, which Spark does not execute,", span_of(query)
        for window in _own_nodes(select):
            call = window.this if isinstance(window, exp.Window) else None
            if isinstance(call, exp.Expr) and isinstance(call.args.get("this"), exp.Distinct):
                yield "DISTINCT in an aggregate with OVER, which Spark does not execute,", span_of(call)

    def of_set(self, operation: exp.SetOperation) -> Iterator[tuple[str, Span | None]]:
        """What Spark does not analyze of UNION, INTERSECT and EXCEPT."""
        adds = isinstance(operation, exp.Union) and not operation.args.get("distinct")
        first = operation.this
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.this
        if not adds and isinstance(first, exp.Select) and self._has_map(first):
            yield "a set of rows with a MAP, which Spark does not compare,", span_of(operation)

    def _has_map(self, select: exp.Select) -> bool:
        """Whether a column of the result is a MAP, or has one in it."""
        columns = self.columns_of(select, self.queries(select), self.scope(select).around)
        return any("MAP<" in str(column.type) for column in columns or ())

    def _reads_map(self, unnest: exp.Unnest, select: exp.Select) -> bool:
        columns = map(self.scope(select).column, columns_outside(unnest))
        return any(column is not None and "MAP<" in str(column.type) for column in columns)

    # --- columns of queries around ------------------------------------------------------------------------------

    def _outer_columns(self, select: exp.Select) -> Iterator[tuple[str, Span | None]]:
        """Those that a subquery reads outside of WHERE, HAVING, ON and a plain select list, or from further
        outside, or beside grouping sets, or in an aggregate of their own query."""
        scope = self.scope(select)
        if scope.around is None:
            return
        aliases = {expression.alias.casefold() for expression in select.expressions if expression.alias}
        for column in (node for node in _own_nodes(select) if isinstance(node, exp.Column)):
            place = self._place(column, select)
            of_group = place == "expressions" and self.is_aggregation(select)
            of_window = column.find_ancestor(exp.Window, exp.Select) is not select
            is_alias = not column.table and column.name.casefold() in aliases
            of_source = place == "from_" and (select.args.get("group") is not None or not self.is_aggregation(select))
            refused = place in ("group", "order", "laterals") or of_source or of_group or of_window
            refused = refused or has_grouping_sets(select) or self._is_in_aggregate(column, select)
            refused = refused or (scope.level(column) or 0) > 1
            if refused and not is_alias and scope.is_outer(column):
                yield f'"{column.name}", a column of the query around a subquery,', span_of(column)

    def _place(self, node: exp.Expr, select: exp.Select) -> str:
        """The clause of a SELECT that a node is in."""
        while node.parent is not None and node.parent is not select:
            node = node.parent
        return str(node.arg_key)

    # --- subqueries ---------------------------------------------------------------------------------------------

    def _subqueries(self, select: exp.Select) -> Iterator[exp.Expr]:
        """Those of the SELECT's expressions, not of FROM, LATERAL and WITH."""
        for node in _own_nodes(select):
            is_source = isinstance(node.parent, exp.From | exp.Join | exp.Lateral | exp.CTE)
            if isinstance(node, exp.Query) and node is not select and not isinstance(node, exp.Table) and not is_source:
                yield node

    def _is_refused(self, query: exp.Expr, select: exp.Select) -> bool:
        place = self._place(query, select)
        is_scalar = not isinstance(query.parent, exp.In | exp.Exists | exp.Any | exp.All)
        in_window = query.find_ancestor(exp.Window, exp.Select) is not select
        if place == "order" and not is_scalar:
            return True
        columns = self._outer_reads(query, select)
        join = query.find_ancestor(exp.Join)
        if join is not None and is_asof(join) and self._reads_left(columns, join, select):
            return True  # Spark reads it from a subquery in a subquery
        if place == "joins" and not is_scalar:
            comparison = query.parent.parent if isinstance(query.parent, exp.Any | exp.All) else query.parent
            if comparison is not query.parent and columns:  # which Spark reads as one with a least or greatest value
                return True
            if self._is_of_several(query, select):
                return True
            compared = columns_outside(comparison) if comparison is not None and _pads(query) else ()
            return self._reads_both_sides([*columns, *compared], query, select)
        if not columns:
            return False
        if place in ("order", "laterals", "group", "joins"):
            return True
        return (
            has_grouping_sets(select) or (in_window and is_scalar) or self._reads_computed_keys(columns, query, select)
        )

    def _reads_computed_keys(self, columns: list[exp.Column], query: exp.Expr, select: exp.Select) -> bool:
        """Whether a subquery above the groups reads columns that are no keys themselves, but parts of such."""
        if self._place(query, select) not in ("expressions", "having") or not select.args.get("group"):
            return False
        if self._is_in_aggregate(query, select):
            return False
        keys = {key.name.casefold() for key in _keys(select) if isinstance(key, exp.Column)}
        return any(column.name.casefold() not in keys for column in columns)

    def is_value_of_group(self, query: exp.Subquery) -> bool:
        """Whether a scalar subquery reads the grouped query around it in the select list, outside of aggregates."""
        select = query.find_ancestor(exp.Select)
        if not isinstance(select, exp.Select) or self._place(query, select) != "expressions":
            return False
        if isinstance(query.parent, exp.In | exp.Exists | exp.Any | exp.All | exp.From | exp.Join | exp.Lateral):
            return False
        if not self.is_aggregation(select) or has_grouping_sets(select) or self._is_in_aggregate(query, select):
            return False
        return bool(self._outer_reads(query, select))

    def _is_in_aggregate(self, node: exp.Expr, select: exp.Select) -> bool:
        around = node.parent
        while around is not None and around is not select:
            if isinstance(around, AGGREGATE_WRAPPERS) or aggregate_name(around, self._own_catalog) is not None:
                return True
            around = around.parent
        return False

    def _outer_reads(self, query: exp.Expr, select: exp.Select) -> list[exp.Column]:
        """The columns in a subquery of the SELECT that are those of the SELECT, or of a query around that."""
        outer, found = self.scope(select), list[exp.Column]()
        for column, scope in self._unresolved(query):
            while scope is not None and scope is not outer and scope.owner(column) is None:
                scope = scope.around
            if scope is outer and outer.level(column) is not None:
                found.append(column)
        return found

    def _unresolved(self, query: exp.Expr) -> Sequence[tuple[exp.Column, Scope | None]]:
        """The columns in a query that its own tables and those of queries inside it do not have, and the scope to look
        for them next. Kept for each query, since every query around it asks."""
        if id(query) not in self._outer:
            columns = list[tuple[exp.Column, Scope | None]]()
            own = self.scope(query) if isinstance(query, exp.Select) else None
            for node in own_expressions(query):
                if isinstance(node, exp.Query) and node is not query:
                    columns += self._unresolved(node)
                elif isinstance(node, exp.Column) and isinstance(around := node.find_ancestor(exp.Select), exp.Select):
                    columns.append((node, self.scope(around)))
            if own is not None:
                columns = [
                    (column, own.around if scope is own else scope)
                    for column, scope in columns
                    if scope is not own or own.owner(column) is None
                ]
            self._outer[id(query)] = columns
        return self._outer[id(query)]

    def _is_of_several(self, query: exp.Expr, select: exp.Select) -> bool:
        """Whether a condition of an outer join has this subquery and another one, and reads both sides: Spark ends
        with an internal error."""
        condition = _conjunct_of(query)
        nodes = condition.walk(prune=lambda node: isinstance(node, exp.Query))
        several = sum(isinstance(node, exp.Query) for node in nodes) > 1
        return several and _pads(query) and self._reads_both_sides(columns_outside(condition), query, select)

    def _reads_left(self, columns: list[exp.Column], join: exp.Join, select: exp.Select) -> bool:
        """Whether one of the columns is not one of what is joined."""
        right, scope = join.this.alias_or_name.casefold(), self.scope(select)
        owners = (scope.owner(column) for column in columns)
        return any(owner is not None and owner.name.casefold() != right for owner in owners)

    def _reads_both_sides(self, columns: Iterable[exp.Column], query: exp.Expr, select: exp.Select) -> bool:
        """Whether a subquery of ON reads what is joined and what is before it."""
        join = query.find_ancestor(exp.Join)
        right = join.this.alias_or_name.casefold() if join is not None else ""
        scope = self.scope(select)
        owners = {owner.name.casefold() == right for column in columns if (owner := scope.owner(column)) is not None}
        return len(owners) > 1


def _conjunct_of(node: exp.Expr) -> exp.Expr:
    """The whole condition of ON that a node is in, one of those that AND joins."""
    while node.parent is not None and not isinstance(node.parent, exp.Join | exp.And | exp.Select):
        node = node.parent
    return node


def _own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT down to its subqueries, which are the last ones."""
    return select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)


def _keys(select: exp.Select) -> Iterator[exp.Expr]:
    """The keys of GROUP BY, of which some are numbers or aliases of the select list."""
    group = select.args["group"]
    if group.args.get("all"):
        yield from (column.unalias() for column in select.expressions)
    named = {column.alias.casefold(): column.unalias() for column in select.expressions if column.alias}
    for key in group.expressions:
        yield key
        if isinstance(key, exp.Column) and not key.table:
            yield named.get(key.name.casefold(), key)
        elif isinstance(key, exp.Literal) and key.name.isdigit() and 0 < int(key.name) <= len(select.expressions):
            yield select.expressions[int(key.name) - 1].unalias()


def _is_odd(join: exp.Join) -> bool:
    """Whether it is another join than INNER, CROSS and LEFT."""
    return join.text("side").upper() in ("RIGHT", "FULL") or join.text("kind").upper() in ("SEMI", "ANTI")


def _has_condition(join: exp.Join) -> bool:
    condition = join.args.get("on")
    return condition is not None and not (isinstance(condition, exp.Boolean) and condition.this)


def _pads(query: exp.Expr) -> bool:
    """Whether a query is in ON of an outer, semi or anti join."""
    join = query.find_ancestor(exp.Join, exp.Select)
    return isinstance(join, exp.Join) and bool(join.text("side") or join.text("kind").upper() in ("SEMI", "ANTI"))


def _is_source(select: exp.Select, parent: exp.Select) -> bool:
    """Whether a SELECT is a query of FROM or of WITH, and not behind LATERAL."""
    node: exp.Expr = select
    while node.parent is not None and node.parent is not parent:
        node = node.parent
        if isinstance(node, exp.Lateral):
            return False
        if isinstance(node, exp.CTE):
            return True
        if isinstance(node, exp.Join):
            return any(node.this is part for part in _up(select, node))
    return node.arg_key == "from_"


def _up(node: exp.Expr, top: exp.Expr) -> Iterator[exp.Expr]:
    while node is not top and node.parent is not None:
        yield node
        node = node.parent
