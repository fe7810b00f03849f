"""Subqueries in WHERE, ON and the select list, as joins with the rows that they give.

``IN`` and ``EXISTS`` among the conditions of WHERE are semi joins, ``NOT IN`` and ``NOT EXISTS`` anti joins. Anywhere
else, a left join finds whether there is a row, or what the value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.nodes import StreamClauses
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.grammar.trees import clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import aggregate_name
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.correlation import Correlation, Limited, SubqueryRows
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, is_whole_number, types_of
from sqlstream.planner.binder.grouping import aliased
from sqlstream.planner.binder.joins import join_sides as join_of
from sqlstream.planner.binder.joins import scope_of_both, with_distinct_fields
from sqlstream.planner.binder.ordering import check_order, sorted_by
from sqlstream.planner.binder.scope import WRONG_WIDTH, Scope, Selected
from sqlstream.planner.binder.select_list import is_read_by_alias
from sqlstream.planner.binder.temporal_joins import asof_join
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.expressions import (
    as_expression,
    conjunction,
    conjuncts,
    has_subquery,
    is_one_group,
    names_in,
    own_expressions,
    rewritten,
    subquery_of_in,
    with_args,
)
from sqlstream.planner.memberships import UnknownCase, unknown_cases
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.top_n import ROW_NUMBER, TopN
from sqlstream.planner.row_values import row_values
from sqlstream.planner.suggestions import counted
from sqlstream.udfs.joins import JoinKind

Bind = Callable[[exp.Expr, Context, Correlation], Relation]
"""Binds a subquery, and collects in the Correlation what it reads of the query around it."""

MANY_ROWS = "a scalar subquery gave more than one row"
_PLACE = ClauseContext("WHERE")
_MOST_TWICE = 4
MOST_NULLABLE = 3
"""How many values of a row that IN compares as a value may be NULL: each more doubles the joins."""


def without_subqueries(where: exp.Expr) -> tuple[exp.Expr | None, list[exp.Expression]]:
    """Divides WHERE. Returns a pair: the conditions without subqueries, joined by AND (None if there are none), and the
    list of conditions that contain subqueries.
    """
    if not has_subquery(where):
        return where, []
    conditions = conjuncts(where)
    plain = [condition for condition in conditions if not has_subquery(condition)]
    return conjunction(plain) if plain else None, [c for c in conditions if has_subquery(c)]


@dataclass(frozen=True)
class Subqueries:
    """Binds the subqueries of one SELECT as joins. UnsupportedError SS308 for a subquery that no join can compute,
    SS650 for a wrong number of columns. ``side`` tells the names of their columns from those of the other side of ON.
    """

    context: Context
    bind: Bind
    side: str = ""

    def filtered(self, scope: Scope, conditions: Iterable[exp.Expr]) -> Scope:
        """Returns the scope of those rows for which all ``conditions`` are true. The conditions contain subqueries."""
        for condition in conditions:
            scope = self._where(scope, condition)
        return scope

    def selected(self, columns: Sequence[Selected], scope: Scope) -> tuple[Scope, list[Selected]]:
        """Binds the subqueries of a select list. Returns a pair: the scope with a column for each subquery, and the
        select list in which these columns replace the subqueries.

        A subquery that other columns read by its alias is joined once.
        """
        replaced = list(columns)
        known: dict[exp.Expr, exp.Expr] = {}
        for i, column in enumerate(columns):
            if column.bound is None and has_subquery(column.expression):
                scope, value = self.valued(column.expression, scope, known=known)
                replaced[i] = replace(column, expression=value)
        return scope, replaced

    # --- conditions ---------------------------------------------------------------------------------------------

    def _where(self, scope: Scope, condition: exp.Expr) -> Scope:
        holds, plain = True, condition.unnest()
        while isinstance(plain, exp.Not):
            holds, plain = not holds, plain.this.unnest()
        match plain:
            case exp.Exists(this=exp.Query() as rows) if tested_group(rows, self.context.catalog) is None:
                return self._exists(scope, plain, holds)
            case exp.In() if (query := subquery_of_in(plain)) is not None:
                return self._in(scope, plain, query, holds)
        return self._checked(*self.valued(condition, scope, filters=True))

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
        """IN is a semi join. NOT IN of values that may be NULL is two anti joins: one on equal values, one on whether a
        value of the subquery is NULL, or NULL is compared with any row.

        Without keys for the second join, and deep inside other NOT INs, each of which doubles the plan, it is one anti
        join that compares all pairs.
        """
        scope, operand = self.valued(node.this, scope)
        rows = self._rows(query, scope, is_set=True, lists=True, twice=not holds)
        equal, conditions = _equalities(operand, rows, node), rows.read.conditions
        if rows.read.one_row:
            scope, value = self._in_value(scope, rows, equal, node, null_is_false=holds)
            return self._checked(scope, value if holds else exp.Not(this=value))
        if holds:
            return self.joined(scope, rows.all(), JoinKind.SEMI, [*conditions, *equal], node)
        nullable = [own or theirs for own, theirs in zip(*self._nullable(equal, rows, scope), strict=True)]
        if any(nullable) and rows.read.keyed and len(equal) == 1 and self.context.twice < _MOST_TWICE:
            scope = self.joined(scope, rows.all(), JoinKind.ANTI, [*conditions, *equal], node)
            unknown = exp.Or(this=_is_null(operand.copy()), expression=rows.reference("nulls"))
            return self.joined(scope, rows.nulls(), JoinKind.ANTI, [*conditions, unknown], node)
        unless_false = [_or_null(e) if maybe else e for e, maybe in zip(equal, nullable, strict=True)]
        return self.joined(scope, rows.all(), JoinKind.ANTI, [*conditions, *unless_false], node)

    def _nullable(self, equal: Sequence[exp.EQ], rows: SubqueryRows, scope: Scope) -> tuple[list[bool], list[bool]]:
        """For each comparison, whether the value before IN, and that of the subquery, may be NULL."""
        types, quiet = types_of(scope, self.context), replace(self.context, problems={})
        own = [types.nullable(bind(comparison.left, scope, quiet, _PLACE)) for comparison in equal]
        return own, [field.nullable for field in rows.values]

    # --- values -------------------------------------------------------------------------------------------------

    def valued(
        self,
        expression: exp.Expr,
        scope: Scope,
        *,
        filters: bool = False,
        known: dict[exp.Expr, exp.Expr] | None = None,
    ) -> tuple[Scope, exp.Expr]:
        """Binds the subqueries of one expression. Returns a pair: the scope with a column for each subquery, and the
        expression in which these columns replace the subqueries.

        ``filters``: the expression is a condition of WHERE or HAVING, for which NULL and FALSE are the same. ``known``
        maps earlier subqueries to their columns, for those that are read again by an alias.
        """
        answers = {} if known is None else known

        def value(node: exp.Expr) -> exp.Expr:
            nonlocal scope
            if is_read_by_alias(node) and node in answers:
                return answers[node].copy()
            match node:
                case exp.Exists(this=exp.Query() as rows_of) if (
                    group := tested_group(rows_of, self.context.catalog)
                ) is not None:
                    scope, answer = self.valued(_is_true_of_group(group), scope)
                case exp.Exists(this=exp.Query()):
                    scope, answer = self._exists_value(scope, node)
                case exp.In() if (query := subquery_of_in(node)) is not None:
                    scope, operand = self.valued(node.this, scope)
                    rows = self._rows(query, scope, is_set=True, lists=True, needs_keys=True)
                    equal = _equalities(operand, rows, node)
                    scope, answer = self._in_value(
                        scope, rows, equal, node, null_is_false=filters and _null_is_false(node)
                    )
                case exp.Subquery():
                    group = tested_group(node, self.context.catalog)
                    value_of = node if group is None else _null_unless_true(group)
                    rows = self._rows(value_of, scope, is_set=False, lists=True, needs_keys=True)
                    scope, answer = self._scalar(scope, rows, node)
                case _:
                    return node
            mark_as(answer, node)
            answers[node] = answer
            return answer

        replaced = rewritten(expression, value)  # which extends the scope
        return scope, replaced

    def _exists_value(self, scope: Scope, node: exp.Exists) -> tuple[Scope, exp.Expr]:
        rows = self._rows(node.this, scope, is_set=True, lists=False, needs_keys=True)
        if rows.read.one_row:
            return scope, exp.true()
        scope = self._left_joined(scope, rows, rows.distinct(values=False), node)
        return scope, _is_not_null(rows.reference("there"))

    def _in_value(
        self, scope: Scope, rows: SubqueryRows, equal: Sequence[exp.EQ], node: exp.In, *, null_is_false: bool
    ) -> tuple[Scope, exp.Expr]:
        """IN as a value: TRUE if found, FALSE without rows, else NULL if the value or one of the subquery is NULL."""
        if rows.read.one_row:
            scope, values = self._values_of_row(scope, rows, node)
            compared = [exp.EQ(this=e.left.copy(), expression=value) for e, value in zip(equal, values, strict=True)]
            return scope, exp.Paren(this=exp.and_(*compared, copy=False))
        cases = unknown_cases(*self._nullable(equal, rows, scope))
        scope = self._left_joined(scope, rows, rows.distinct(values=True), node, equal)
        is_there = _is_not_null(rows.reference("there"))
        if null_is_false or not cases:
            return scope, is_there
        if len(equal) != 1:
            return self._row_value(scope, rows, equal, node, is_there, cases)
        scope = self._left_joined(scope, rows, rows.nulls(), node)
        nulls = rows.reference("nulls")
        unknown = exp.Or(this=_is_null(equal[0].left.copy()), expression=nulls)
        answers = exp.Case().when(is_there, exp.true()).when(_is_null(nulls), exp.false()).when(unknown, exp.Null())
        return scope, exp.Paren(this=answers.else_(exp.false()))

    def _row_value(
        self,
        scope: Scope,
        rows: SubqueryRows,
        equal: Sequence[exp.EQ],
        node: exp.In,
        is_there: exp.Expr,
        cases: Sequence[UnknownCase],
    ) -> tuple[Scope, exp.Expr]:
        """IN of a row of values: for each set of positions at which NULL may prevent a comparison, a join on the
        others."""
        if sum(1 for i in range(len(equal)) if any(i in case.outside for case in cases)) > MOST_NULLABLE:
            raise unsupported.refusal("subquery of rows", span_of(node))
        unknown: list[exp.Expr] = []
        for number, outside in enumerate(dict.fromkeys(case.outside for case in cases)):
            same = [case for case in cases if case.outside == outside]
            right = rows.nulls_outside(same[0].equal, [case.theirs for case in same], number)
            compared = (
                exp.EQ(this=equal[i].left.copy(), expression=rows.reference(f"value_{i}_{number}"))
                for i in same[0].equal
            )
            scope = self._left_joined(scope, rows, right, node, compared)
            for position, case in enumerate(same):
                some = exp.GT(this=rows.reference(f"nulls_{number}_{position}"), expression=exp.Literal.number(0))
                unknown.append(exp.and_(*(_is_null(equal[i].left.copy()) for i in case.own), some, copy=False))
        answers = exp.Case().when(is_there, exp.true()).when(exp.or_(*unknown, copy=False), exp.Null())
        return scope, exp.Paren(this=answers.else_(exp.false()))

    def _scalar(self, scope: Scope, rows: SubqueryRows, node: exp.Expr) -> tuple[Scope, exp.Expr]:
        """The value of a scalar subquery, which raises an error when it runs and there is more than one row."""
        if len(rows.values) != 1:
            message = f"a scalar subquery gives one column, not {len(rows.values)}"
            raise bind_error(WRONG_WIDTH, message, node, "Select one value in it.")
        if not rows.at_most_one:
            value: exp.Expr = rows.reference("value_0")
            error = exp.Anonymous(this="RAISE_ERROR", expressions=[exp.Literal.string(MANY_ROWS)])
            many = exp.GT(this=rows.reference("rows"), expression=exp.Literal.number(1))
            value = exp.Paren(this=exp.Case().when(many, error).else_(value))
            return self._left_joined(scope, rows, rows.single(), node), value
        scope, (value,) = self._values_of_row(scope, rows, node)
        return scope, value

    def _values_of_row(self, scope: Scope, rows: SubqueryRows, node: exp.Expr) -> tuple[Scope, list[exp.Expr]]:
        """The values of the one row of a subquery, those of aggregates over no rows where there is none."""
        values: list[exp.Expr] = [rows.reference(f"value_{i}") for i in range(len(rows.values))]
        defaults = rows.read.defaults or [None] * len(values)
        if all(default is None for default in defaults):
            return self._left_joined(scope, rows, rows.all(), node), values
        for i, default in enumerate(defaults):
            if default is not None:
                kind = rows.values[i].type
                if not kind.is_unknown and default.find(exp.Null, exp.Array) is not None:  # which alone have no type
                    default = exp.cast(default, kind.to_sqlglot())
                filled = exp.Case().when(_is_null(rows.reference("there")), default).else_(values[i])
                values[i] = exp.Paren(this=filled)
        return self._left_joined(scope, rows, rows.with_there(), node), values

    # --- joins --------------------------------------------------------------------------------------------------

    def _rows(
        self,
        query: exp.Expr,
        around: Scope,
        *,
        is_set: bool,
        lists: bool,
        twice: bool = False,
        needs_keys: bool = False,
    ) -> SubqueryRows:
        read = self._correlation(around, is_set, lists, needs_keys)
        return self.rows_and_names(query, read, twice=twice)[0]

    def _correlation(self, around: Scope, is_set: bool, lists: bool, needs_keys: bool) -> Correlation:
        return Correlation(around, f"__subquery_{self.side}{len(around.columns)}", is_set, lists, needs_keys)

    def rows_of_lateral(self, query: exp.Expr, around: Scope, inner: bool) -> tuple[SubqueryRows, tuple[str, ...]]:
        """Binds the subquery after LATERAL. Returns a pair: its rows, and the names of its columns. ``around`` is the
        scope of the sources to its left; ``inner`` says whether the join is inner.
        """
        return self.rows_and_names(query, replace(self._correlation(around, False, True, False), inner=inner))

    def rows_and_names(
        self, query: exp.Expr, read: Correlation, *, twice: bool = False
    ) -> tuple[SubqueryRows, tuple[str, ...]]:
        """Binds a subquery. Returns a pair: its rows, and the names of its own columns, without those added for the
        correlation. ``read`` is filled with what it reads of the outer query; ``twice``: the plan may contain the
        subquery twice.
        """
        around = read.around
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
        if read.limited is not None:
            own -= len(read.limited.order)
            rows = replace(self._first_rows(rows, read.limited) if read.keyed else rows, values=values[:own])
        return rows, relation.names[:own]

    def _first_rows(self, rows: SubqueryRows, limited: Limited) -> SubqueryRows:
        """The first rows for each value that the condition of the join compares."""
        fields = rows.values[len(rows.values) - len(limited.order) :]
        order = tuple(map(sorted_by, limited.order, (field.name for field in fields)))
        check_order(order, rows.node, limited.at)
        keys = tuple(field.name for field in rows.keys)
        node = TopN(rows.node, keys, order, ROW_NUMBER, limited.first, limited.last, None, ttl_ms=rows.ttl_ms)
        return replace(rows, node=check_changes(node, self.context, limited.at))

    def _left_joined(
        self, scope: Scope, rows: SubqueryRows, right: Scope, at: exp.Expr, equal: Iterable[exp.Expr] = ()
    ) -> Scope:
        """The rows of the query, each with the row of ``right`` that matches it, if there is one."""
        if not rows.read.keyed:
            joined = self.nearest_joined(scope, rows, JoinKind.LEFT, at)
        else:
            joined = self.joined(scope, right, JoinKind.LEFT, [*rows.read.conditions, *equal], at)
        return Scope(joined.node, tuple(c for c in joined.columns if c.name not in rows.names_of_keys))

    def nearest_joined(self, scope: Scope, rows: SubqueryRows, kind: JoinKind, at: exp.Expr) -> Scope:
        """Returns the scope in which each row of the outer query is joined with the nearest row of the subquery, like
        an ASOF JOIN.
        """
        condition = conjunction([as_expression(condition) for condition in rows.read.conditions])
        join = exp.Join(
            this=exp.to_table(rows.read.prefix), on=condition, side="LEFT" if kind is JoinKind.LEFT else None
        )
        mark_as(join, at)
        return asof_join(join, scope, rows.all(), self.context)

    def joined(self, scope: Scope, right: Scope, kind: JoinKind, conditions: Iterable[exp.Expr], at: exp.Expr) -> Scope:
        """Joins the rows of the outer query (``scope``) with rows of a subquery (``right``), and returns the scope of
        the result. ``at`` is the syntax for messages.
        """
        right = with_distinct_fields(right, scope)
        pairs = scope_of_both(scope, right)
        bound = [bind_condition(condition, pairs, self.context, _PLACE) for condition in conditions]
        self.context.stop_if_wrong()
        parts = [conjunct for condition in bound for conjunct in conjuncts(condition)]
        node = join_of(scope, right, kind, parts, at, self.context)
        return Scope(node, pairs.columns) if kind.pairs else scope.over(node)


def _equalities(operand: exp.Expr, rows: SubqueryRows, node: exp.In) -> list[exp.EQ]:
    """The comparisons of the operand of IN, a value or a row of values, with the columns of the subquery. SS650."""
    plain = operand.unnest()
    values = plain.expressions if isinstance(plain, exp.Tuple) else row_values(plain, len(rows.values)) or [operand]
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
    """Whether only AND, OR and parentheses are between a part of a condition and the whole of it, so that its NULL has
    the effect that FALSE has. Those of ON keep NULL."""
    around = node.parent
    while isinstance(around, exp.And | exp.Or | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Where) or around is None


def tested_group(query: exp.Expr, catalog: Catalog) -> exp.Select | None:
    """The SELECT of a subquery that aggregates all of its rows, of which HAVING decides whether there is a result; None
    for any other. In a value and in EXISTS such a HAVING is computed as a value, also of no rows.
    """
    select = query.this if isinstance(query, exp.Subquery) and not query.args.get("with_") else query
    if not isinstance(select, exp.Select) or not select.args.get("having") or clauses_of(select) != StreamClauses():
        return None
    if any(select.args.get(key) for key in ("with_", "qualify", "limit", "offset", "distinct")):
        return None
    if select.args.get("group") and not is_one_group(select.args["group"]):
        return None
    having = select.args["having"].this
    names = {column.alias.casefold() for column in select.expressions if isinstance(column, exp.Alias)}
    read = (node for node in own_expressions(having) if isinstance(node, exp.Column) and not node.table)
    if any(column.name.casefold() in names for column in read):
        return None
    parts = [node for part in (having, *select.expressions) for node in own_expressions(part)]
    return select if any(aggregate_name(node, catalog) is not None for node in parts) else None


_PLAIN = dict.fromkeys(("group", "having", "order"))


def _is_true_of_group(group: exp.Select) -> exp.Expr:
    """Whether HAVING of a group of all rows is true, as EXISTS asks."""
    value = exp.Subquery(this=with_args(group, expressions=[group.args["having"].this], **_PLAIN))
    return exp.Coalesce(this=value, expressions=[exp.false()])


def _null_unless_true(group: exp.Select) -> exp.Expr:
    """The scalar subquery of a group of all rows, which is NULL where HAVING is not true."""
    having = group.args["having"].this
    columns = [exp.Case().when(having.copy(), column.unalias().copy()) for column in group.expressions]
    return exp.Subquery(this=with_args(group, expressions=columns, **_PLAIN))


# --- subqueries in ON -----------------------------------------------------------------------------------------


def without_subqueries_on(
    join: exp.Join, left: Scope, right: Scope, subqueries: Subqueries
) -> tuple[exp.Join, Scope, Scope, list[exp.Expr]]:
    """Removes the subqueries from the ON of a join. Returns four things: the join without them, its left and right
    side, and further conditions for a filter above the join.

    Subqueries in ON of an inner join become such conditions; those of other joins must read one side each, on
    which they are evaluated before the join. So must those of an ASOF JOIN, where a condition chooses among the right
    rows.
    UnsupportedError SS308 for a subquery that reads both sides of an outer, semi, anti or ASOF join.
    """
    on = join.args.get("on")
    if on is None or not has_subquery(on):
        return join, left, right, []
    conditions = conjuncts(on)
    rest: list[exp.Expr] = [condition for condition in conditions if not has_subquery(condition)]
    asking = [condition for condition in conditions if has_subquery(condition)]
    above: list[exp.Expr] = []
    of_right = replace(subqueries, side="right_")
    kept_left, kept_right = _kept_sides(join)
    has_both = join.text("kind").upper() not in ("SEMI", "ANTI") and join.text("method").upper() != "ASOF"
    for condition in asking:
        side = _side_read(condition, left, right)
        if not kept_left and not kept_right and (has_both or side == 0):
            above.append(condition)
            continue
        if side == 0 and not kept_left:
            left = subqueries.filtered(left, [condition])
        elif side == 1 and not kept_right:
            right = of_right.filtered(right, [condition])
        else:
            left, right, value = _valued_on_sides(condition, left, right, subqueries, of_right)
            rest.append(value)
    on = conjunction([as_expression(condition) for condition in rest]) if rest else exp.true()
    return with_args(join, on=on), left, right, above


def _valued_on_sides(
    condition: exp.Expr, left: Scope, right: Scope, of_left: Subqueries, of_right: Subqueries
) -> tuple[Scope, Scope, exp.Expr]:
    """The sides with a column for each subquery of a condition, and the condition that reads these columns."""
    side_of_all = _side_read(condition, left, right)

    def value(node: exp.Expr) -> exp.Expr:
        nonlocal left, right
        if not isinstance(node, exp.Exists | exp.Subquery) and not (
            isinstance(node, exp.In) and subquery_of_in(node) is not None
        ):
            return node
        side = _side_read(node, left, right) if _columns_read(node, left, right) else side_of_all
        if side is None:
            raise unsupported.refusal("subquery of both sides", span_of(condition))
        if side == 0:
            left, found = of_left.valued(node, left)
        else:
            right, found = of_right.valued(node, right)
        return found

    replaced = rewritten(condition, value)  # which extends the sides
    return left, right, replaced


def _kept_sides(join: exp.Join) -> tuple[bool, bool]:
    """For each side, whether rows that fail the condition still matter: they are padded, or kept by ANTI."""
    side, kind = join.text("side").upper(), join.text("kind").upper()
    if kind in ("SEMI", "ANTI"):
        return kind == "ANTI", False
    return side in ("LEFT", "FULL"), side in ("RIGHT", "FULL")


def _columns_read(condition: exp.Expr, left: Scope, right: Scope) -> list[exp.Column]:
    """The columns of a join that a condition reads; in subqueries only by the names of tables."""
    outside = condition.walk(prune=lambda node: isinstance(node, exp.Query))
    columns = [node for node in outside if isinstance(node, exp.Column)]
    around = {name.casefold() for side in (left, right) for name in side.tables}
    for node in own_expressions(condition):
        if isinstance(node, exp.Query):
            columns += [column for column in names_in(node).outer if column.table.casefold() in around]
    return columns


def _side_read(condition: exp.Expr, left: Scope, right: Scope) -> int | None:
    """The side that a condition reads, left if it reads none; None if it reads both."""
    columns = _columns_read(condition, left, right)
    return next((i for i, side in enumerate((left, right)) if all(map(side.knows, columns))), None)


# --- ORDER BY and LIMIT of subqueries -------------------------------------------------------------------------


def limited_select(select: exp.Select) -> tuple[exp.Select, Limited] | None:
    """Separates ORDER BY and LIMIT from a subquery. Returns a pair: the subquery without them, which selects the values
    of ORDER BY as additional last columns, and the limit.

    Returns None without a LIMIT, if LIMIT or OFFSET is not a literal number, and for SELECT DISTINCT ordered by a
    column that it does not select.
    """
    order, limit, offset = (select.args.get(key) for key in ("order", "limit", "offset"))
    count, skipped = _whole_number(limit), _whole_number(offset) if offset is not None else 0
    ordered = tuple(order.expressions) if order is not None else ()
    values = [_ordered_by(by.this, select) for by in ordered]
    if count is None or skipped is None:
        return None
    if select.args.get("distinct") and not all(value in map(_unaliased, select.expressions) for value in values):
        return None
    plain = with_args(select, order=None, limit=None, offset=None)
    plain.set("expressions", [*select.expressions, *(value.copy() for value in values)])
    return plain, Limited(ordered, skipped + 1, skipped + count, select)


def _unaliased(column: exp.Expr) -> exp.Expr:
    return column.unalias()


def _ordered_by(value: exp.Expr, select: exp.Select) -> exp.Expr:
    """The expression of ORDER BY; ordinals and aliases of the select list are replaced."""
    if isinstance(value, exp.Literal) and value.name.isdigit() and 1 <= int(value.name) <= len(select.expressions):
        return as_expression(select.expressions[int(value.name) - 1].unalias())
    column = aliased(value.name, select.expressions) if isinstance(value, exp.Column) and not value.table else None
    return value if column is None else column


def _whole_number(clause: exp.Expr | None) -> int | None:
    value = clause.expression if clause is not None else None
    if value is None or not is_whole_number(value) or len(value.name) > 9:
        return None
    count = int(value.name)
    return None if count == 0 and isinstance(clause, exp.Limit) else count
