"""Subqueries in WHERE and in the select list, as joins with what they give.

``IN`` and ``EXISTS`` among the conditions of WHERE are semi joins, ``NOT IN`` and ``NOT EXISTS`` anti joins. Everywhere
else a left join tells whether a row is there, or what the value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.correlation import Correlation
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.join_sides import apart_from, scope_of_both
from sqlstream.planner.binder.joins import joined as join_of
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.select_list import Selected
from sqlstream.planner.binder.subquery_rows import SubqueryRows
from sqlstream.planner.nodes import Filter
from sqlstream.planner.rewriting import asked_of, conjunction, conjuncts, has_subquery, rewritten
from sqlstream.planner.suggestions import counted
from sqlstream.udfs.joins import JoinKind

Bind = Callable[[exp.Expr, Context, Correlation], Relation]
"""Makes the relation of a subquery, and notes what it reads of the query around it."""

WRONG_WIDTH = "SS650"

MANY_ROWS = "a scalar subquery gave more than one row"
_BY_EQUALITIES = (
    "But for EXISTS and IN among the conditions of WHERE it may read the query around it in equalities alone."
)
_PLACE = ClauseContext("WHERE")
_MOST_TWICE = 4


def without_subqueries(where: exp.Expr) -> tuple[exp.Expr | None, list[exp.Expression]]:
    """What WHERE asks for without subqueries, and its other conditions."""
    if not has_subquery(where):
        return where, []
    conditions = conjuncts(where)
    plain = [condition for condition in conditions if not has_subquery(condition)]
    return conjunction(plain) if plain else None, [c for c in conditions if has_subquery(c)]


@dataclass(frozen=True)
class Subqueries:
    """Those of one SELECT. What cannot be joined is an UnsupportedError SS308, a wrong number of columns SS650."""

    context: Context
    bind: Bind

    def filtered(self, scope: Scope, conditions: Iterable[exp.Expr]) -> Scope:
        """The rows for which all of the conditions, which have subqueries, hold."""
        for condition in conditions:
            scope = self._where(scope, condition)
        return scope

    def selected(self, columns: Sequence[Selected], scope: Scope) -> tuple[Scope, list[Selected]]:
        """The select list over a scope that has the values of its subqueries."""
        replaced = list(columns)
        for i, column in enumerate(columns):
            if column.bound is None and has_subquery(column.expression):
                scope, value = self.valued(column.expression, scope)
                replaced[i] = replace(column, expression=value)
        return scope, replaced

    # --- conditions ---------------------------------------------------------------------------------------------

    def _where(self, scope: Scope, condition: exp.Expr) -> Scope:
        holds, plain = True, condition.unnest()
        while isinstance(plain, exp.Not):
            holds, plain = not holds, plain.this.unnest()
        match plain:
            case exp.Exists(this=exp.Query()):
                return self._exists(scope, plain, holds)
            case exp.In() if (query := asked_of(plain)) is not None:
                return self._in(scope, plain, query, holds)
        return self._checked(*self.valued(condition, scope))

    def _checked(self, scope: Scope, condition: exp.Expr) -> Scope:
        return scope.over(Filter(scope.node, bind_condition(condition, scope, self.context, _PLACE)))

    def _exists(self, scope: Scope, node: exp.Exists, holds: bool) -> Scope:
        rows = self._rows(node.this, scope, is_set=True, lists=False)
        if rows.read.one_row:
            return self._checked(scope, exp.Boolean(this=holds))
        right = rows.all() if rows.keys else rows.distinct(values=False)
        kind = JoinKind.SEMI if holds else JoinKind.ANTI
        return self.joined(scope, right, kind, rows.read.conditions, node)

    def _in(self, scope: Scope, node: exp.In, query: exp.Expr, holds: bool) -> Scope:
        """NOT IN of values that may be NULL is two anti joins: with equal values, and with whether there are rows of
        which one is NULL, or which NULL is compared with. Where no keys tell these rows, it is one that compares all;
        so it is inside of many others, each of which would have the plan twice.
        """
        scope, operand = self.valued(node.this, scope)
        rows = self._rows(query, scope, is_set=True, lists=True, twice=not holds)
        equal, conditions = _equalities(operand, rows, node), rows.read.conditions
        if rows.read.one_row:
            scope, value = self._in_value(scope, rows, equal, node, null_is_false=holds)
            return self._checked(scope, value if holds else exp.Not(this=value))
        if holds:
            return self.joined(scope, rows.all(), JoinKind.SEMI, [*conditions, *equal], node)
        nullable = self._nullable(equal, rows, scope)
        if any(nullable) and rows.read.keyed and len(equal) == 1 and self.context.twice < _MOST_TWICE:
            scope = self.joined(scope, rows.all(), JoinKind.ANTI, [*conditions, *equal], node)
            unknown = exp.Or(this=_is_null(operand.copy()), expression=rows.reference("nulls"))
            return self.joined(scope, rows.nulls(), JoinKind.ANTI, [*conditions, unknown], node)
        unless_false = [_or_null(e) if maybe else e for e, maybe in zip(equal, nullable, strict=True)]
        return self.joined(scope, rows.all(), JoinKind.ANTI, [*conditions, *unless_false], node)

    def _nullable(self, equal: Sequence[exp.EQ], rows: SubqueryRows, scope: Scope) -> list[bool]:
        """For each comparison whether one of its values may be NULL."""
        types, quiet = types_of(scope, self.context), replace(self.context, problems={})
        operands = (types.nullable(bind(comparison.left, scope, quiet, _PLACE)) for comparison in equal)
        return [own or field.nullable for own, field in zip(operands, rows.values, strict=True)]

    # --- values -------------------------------------------------------------------------------------------------

    def valued(self, expression: exp.Expr, scope: Scope) -> tuple[Scope, exp.Expr]:
        """The expression over a scope that has the values of its subqueries."""

        def value(node: exp.Expr) -> exp.Expr:
            nonlocal scope
            match node:
                case exp.Exists(this=exp.Query()):
                    scope, answer = self._exists_value(scope, node)
                case exp.In() if (query := asked_of(node)) is not None:
                    scope, operand = self.valued(node.this, scope)
                    rows = self._rows(query, scope, is_set=True, lists=True)
                    equal = _equalities(operand, rows, node)
                    scope, answer = self._in_value(scope, rows, equal, node, null_is_false=_null_is_false(node))
                case exp.Subquery():
                    rows = self._rows(node, scope, is_set=False, lists=True)
                    scope, answer = self._scalar(scope, rows, node)
                case _:
                    return node
            mark_as(answer, node)
            return answer

        replaced = rewritten(expression, value)  # which extends the scope
        return scope, replaced

    def _exists_value(self, scope: Scope, node: exp.Exists) -> tuple[Scope, exp.Expr]:
        rows = self._rows(node.this, scope, is_set=True, lists=False)
        if rows.read.one_row:
            return scope, exp.true()
        scope = self._beside(scope, rows, rows.distinct(values=False), node)
        return scope, _is_not_null(rows.reference("there"))

    def _in_value(
        self, scope: Scope, rows: SubqueryRows, equal: Sequence[exp.EQ], node: exp.In, *, null_is_false: bool
    ) -> tuple[Scope, exp.Expr]:
        """TRUE where the value is found; else NULL where it or a value of the subquery is, but FALSE of no rows."""
        if rows.read.one_row and len(equal) == 1:
            scope, value = self._scalar(scope, rows, node)
            return scope, exp.Paren(this=exp.EQ(this=equal[0].left.copy(), expression=value))
        nullable = any(self._nullable(equal, rows, scope))
        scope = self._beside(scope, rows, rows.distinct(values=True), node, equal)
        is_there = _is_not_null(rows.reference("there"))
        if null_is_false or not nullable:
            return scope, is_there
        if len(equal) != 1:
            raise unsupported.refusal("subquery of rows", span_of(node))
        scope = self._beside(scope, rows, rows.nulls(), node)
        nulls = rows.reference("nulls")
        unknown = exp.Or(this=_is_null(equal[0].left.copy()), expression=nulls)
        answers = exp.Case().when(is_there, exp.true()).when(_is_null(nulls), exp.false()).when(unknown, exp.Null())
        return scope, exp.Paren(this=answers.else_(exp.false()))

    def _scalar(self, scope: Scope, rows: SubqueryRows, node: exp.Expr) -> tuple[Scope, exp.Expr]:
        """The value of the row that the subquery gives; where it may give several, RAISE_ERROR of more than one."""
        if len(rows.values) != 1:
            message = f"a scalar subquery gives one column, not {len(rows.values)}"
            raise bind_error(WRONG_WIDTH, message, node, "Select one value in it.")
        value: exp.Expr = rows.reference("value_0")
        if not rows.at_most_one:
            error = exp.Anonymous(this="RAISE_ERROR", expressions=[exp.Literal.string(MANY_ROWS)])
            many = exp.GT(this=rows.reference("rows"), expression=exp.Literal.number(1))
            value = exp.Paren(this=exp.Case().when(many, error).else_(value))
            return self._beside(scope, rows, rows.single(), node), value
        if rows.read.default is None:
            return self._beside(scope, rows, rows.all(), node), value
        kind, default = rows.values[0].type, rows.read.default
        if not kind.is_unknown and default.find(exp.Null) is not None:  # NULL alone tells no type
            default = exp.cast(default, kind.to_sqlglot())
        value = exp.Case().when(_is_null(rows.reference("there")), default).else_(value)
        return self._beside(scope, rows, rows.with_there(), node), exp.Paren(this=value)

    # --- joins --------------------------------------------------------------------------------------------------

    def _rows(self, query: exp.Expr, around: Scope, *, is_set: bool, lists: bool, twice: bool = False) -> SubqueryRows:
        return self.rows_and_names(query, around, is_set=is_set, lists=lists, twice=twice)[0]

    def rows_and_names(
        self, query: exp.Expr, around: Scope, *, is_set: bool, lists: bool, twice: bool = False
    ) -> tuple[SubqueryRows, tuple[str, ...]]:
        """What a subquery gives, and the names of its own columns. ``twice``: the plan may have it twice."""
        read = Correlation(around, f"__subquery_{len(around.columns)}", is_set, lists)
        outer = self.context.around
        inside = replace(
            self.context,
            around=lambda column: around.knows(column) or outer(column),
            twice=self.context.twice + twice,
        )
        relation = self.bind(query, inside, read)
        self.context.stop_if_wrong()
        own = len(relation.fields) - len(read.selected)
        values, keys = relation.fields[:own], relation.fields[own:]
        rows = SubqueryRows(relation.node, values, keys, read, self.context.settings.state_ttl_ms)
        return rows, relation.names[:own]

    def _beside(
        self, scope: Scope, rows: SubqueryRows, right: Scope, at: exp.Expr, equal: Iterable[exp.Expr] = ()
    ) -> Scope:
        """The rows of the query beside what ``right`` says of them, one row at most."""
        if not rows.read.keyed:
            raise unsupported.refusal("correlated subquery", span_of(at), _BY_EQUALITIES)
        beside = self.joined(scope, right, JoinKind.LEFT, [*rows.read.conditions, *equal], at)
        return Scope(beside.node, tuple(c for c in beside.columns if c.name not in rows.names_of_keys))

    def joined(self, scope: Scope, right: Scope, kind: JoinKind, conditions: Iterable[exp.Expr], at: exp.Expr) -> Scope:
        right = apart_from(right, scope)
        pairs = scope_of_both(scope, right)
        bound = [bind_condition(condition, pairs, self.context, _PLACE) for condition in conditions]
        self.context.stop_if_wrong()
        parts = [conjunct for condition in bound for conjunct in conjuncts(condition)]
        node = join_of(scope, right, kind, parts, at, self.context)
        return Scope(node, pairs.columns) if kind.pairs else scope.over(node)


def _equalities(operand: exp.Expr, rows: SubqueryRows, node: exp.In) -> list[exp.EQ]:
    """The comparisons of a value, or of the values of a row, with the columns of the subquery."""
    plain = operand.unnest()
    values = plain.expressions if isinstance(plain, exp.Tuple) else [operand]
    if len(values) != len(rows.values):
        message = f"IN compares {counted(len(values), 'value')} with {counted(len(rows.values), 'column')}"
        raise bind_error(WRONG_WIDTH, message, node, "Select as many columns as there are values before IN.")
    columns = (rows.reference(f"value_{i}") for i in range(len(values)))
    return [exp.EQ(this=value.copy(), expression=column) for value, column in zip(values, columns, strict=True)]


def _or_null(comparison: exp.EQ) -> exp.Expr:
    """True unless the comparison is false."""
    either = exp.Or(this=comparison, expression=_is_null(comparison.left.copy()))
    return exp.Or(this=either, expression=_is_null(comparison.right.copy()))


def _is_null(value: exp.Expr) -> exp.Expr:
    plain = value if isinstance(value, exp.Column) else exp.Paren(this=value)
    return exp.Is(this=plain, expression=exp.Null())


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=_is_null(value)))


def _null_is_false(node: exp.Expr) -> bool:
    """Is the value asked for by AND and OR alone, up to WHERE?"""
    around = node.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where) or around is None
