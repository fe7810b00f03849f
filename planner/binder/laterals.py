"""LATERAL (SELECT …) in FROM: each row with the rows of a subquery that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, refuse_rest
from sqlstream.planner.binder.correlation import value_of_no_rows
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.join_conditions import is_always_true
from sqlstream.planner.binder.scope import Scope, Visible, names_under
from sqlstream.planner.binder.select_list import aggregates, with_lateral_aliases
from sqlstream.planner.binder.subqueries import Subqueries
from sqlstream.planner.expressions import conjunction, conjuncts, has_subquery, with_args
from sqlstream.planner.fields import Item, UniqueNames, field_name, field_of, shown_name
from sqlstream.planner.nodes import Filter, extended
from sqlstream.udfs.joins import JoinKind

_LATERAL_FORM = "LATERAL takes one SELECT, or VALUES, INNER, CROSS or LEFT."
_LATERAL_KINDS = frozenset({"", "CROSS", "INNER", "OUTER"})


def is_lateral_query(join: exp.Expr) -> bool:
    """Whether a join is one with LATERAL (SELECT …)."""
    return (
        isinstance(join, exp.Join) and isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery)
    )


def lateral_join(join: exp.Join, scope: Scope, subqueries: Subqueries) -> Scope:
    """Binds a join with LATERAL (SELECT …). Returns the scope in which each row is joined with the rows of the subquery
    for it. UnsupportedError SS308 if no join can compute that.

    Conditions in which the subquery reads the outer row become conditions of the join. LIMIT becomes a Top-N per
    compared value, or a join with the nearest row.
    """
    context, lateral = subqueries.context, join.this
    keeps, condition = lateral_kind(join, context)
    select = lateral.this.unnest()
    if not isinstance(select, exp.Select) or select.args.get("with_"):
        raise unsupported.refusal("correlated subquery", span_of(lateral.this), _LATERAL_FORM)
    if select.args.get("limit") is None and select.args.get("offset") is None:
        select = with_args(select, order=None)
    joined = _Lateral(join, select, keeps, subqueries)
    return joined.of_row(scope, condition) if joined.reads_one_row else joined.of_rows(scope, condition)


def lateral_kind(join: exp.Join, context: Context) -> tuple[bool, exp.Expr | None]:
    """Of a join with LATERAL (…): whether rows without partners are emitted, and its condition, None if that is always
    true. UnsupportedError SS308 for RIGHT, FULL and other kinds.
    """
    refuse_rest(join, ("this", "side", "kind", "on"), context)
    refuse_rest(join.this, ("this", "view", "outer", "alias"), context)
    side, on = join.text("side").upper(), join.args.get("on")
    if side not in ("", "LEFT") or join.text("kind").upper() not in _LATERAL_KINDS:
        raise unsupported.refusal("correlated subquery", span_of(join), _LATERAL_FORM)
    return side == "LEFT", None if is_always_true(on) else on


@dataclass(frozen=True)
class _Lateral:
    """LATERAL (``select``) of a join; ``keeps``: a row without partners is emitted, padded with NULL."""

    join: exp.Join
    select: exp.Select
    keeps: bool
    subqueries: Subqueries

    @property
    def reads_one_row(self) -> bool:
        """Whether it is computed from the row before it alone."""
        clauses = ("from_", "group", "having", "distinct", "order", "limit", "offset", "qualify")
        plain = not any(self.select.args.get(key) for key in clauses)
        catalog = self.subqueries.context.catalog
        return plain and not any(aggregates(e, catalog) or e.find(exp.Window) for e in self.select.expressions)

    def of_row(self, scope: Scope, on: exp.Expr | None) -> Scope:
        """The scope with the columns of a SELECT without FROM, which are NULL where its WHERE or ``on`` is not TRUE."""
        context, where = self.subqueries.context, self.select.args.get("where")
        refuse_rest(self.select, ("expressions", "where"), context)
        # An alias precedes names of the query around, of which all columns are.
        columns = with_lateral_aliases(self.select, Scope(scope.node, ()), context).expressions
        conditions = conjuncts(where.this) if where is not None else []
        if not self.keeps:
            for condition in (c for c in conditions if not has_subquery(c)):
                scope = scope.over(
                    Filter(scope.node, bind_condition(condition, scope, context, ClauseContext("WHERE")))
                )
            scope = self.subqueries.filtered(scope, [c for c in conditions if has_subquery(c)])
            conditions = []
        names, items = UniqueNames(f.name for f in scope.node.schema), list[Item]()
        shown = [column.alias_or_name or shown_name(column) for column in columns]
        for name, column in zip(shown, columns, strict=True):
            value: exp.Expr = column.unalias()
            if conditions:
                value = exp.Case().when(conjunction(conditions).copy(), value)
            scope, plain = self.subqueries.valued(value, scope)
            bound = bind(plain, scope, context, ClauseContext("SELECT"))
            types = types_of(scope, context)
            items.append(Item(names.unique(field_name(name, plain)), bound, types.of(bound), types.nullable(bound)))
        context.stop_if_wrong()
        return self._on(scope.over(extended(scope.node, items)), [item.name for item in items], shown, on)

    def of_rows(self, scope: Scope, on: exp.Expr | None) -> Scope:
        """The scope of a join with the rows of the subquery."""
        rows, names = self.subqueries.rows_of_lateral(self.select, scope, not self.keeps)
        # An aggregate without GROUP BY gives one row even for no rows.
        fills = rows.read.one_row and bool(rows.keys)
        kind = JoinKind.LEFT if self.keeps or fills else JoinKind.INNER
        if not rows.read.keyed and rows.read.limited is not None:
            joined = self.subqueries.nearest_joined(scope, rows, kind, self.join)
        else:
            right, conditions = rows.with_there() if fills else rows.all(), list(rows.read.conditions)
            if on is not None and kind is JoinKind.LEFT and not fills and not rows.at_most_one:
                alias = self._names(names)
                own = (
                    Visible(n, f.name, self.join.this.alias or None) for n, f in zip(alias, rows.values, strict=True)
                )
                right, conditions, on = right.with_columns(right.node, tuple(own)), [*conditions, on], None
            joined = self.subqueries.joined(scope, right, kind, conditions, self.join)
        fields = [joined.find(rows.reference(f"value_{i}").name)[0].field for i in range(len(rows.values))]
        if fills:
            there = joined.find(rows.reference("there").name)[0].field
            joined, fields = self._with_values_of_no_rows(joined, fields, there)
        return self._on(Scope(joined.node, scope.columns), fields, names, on)

    def _on(self, scope: Scope, fields: Sequence[str], names: Sequence[str], on: exp.Expr | None) -> Scope:
        """The scope with the subquery's columns, of which each row has one row at most, and for which ``on`` holds."""
        alias = self.join.this.alias or None
        shown = self._names(names)
        visible = tuple(Visible(name, field, alias) for name, field in zip(shown, fields, strict=True))
        scope = Scope(scope.node, (*scope.columns, *visible))
        if on is None:
            return scope
        context = self.subqueries.context
        condition = bind_condition(on, scope, context, ClauseContext("ON"))
        if not self.keeps:
            return scope.over(Filter(scope.node, condition))
        unique, types = UniqueNames(scope.fields), types_of(scope, context)
        items = []
        for field in fields:
            value = exp.Case().when(condition.copy(), field_of(field))
            items.append(Item(unique.unique(field), value, types.of(value)))
        renamed = {field: item.name for field, item in zip(fields, items, strict=True)}
        columns = [replace(v, field=renamed[v.field]) if v in visible else v for v in scope.columns]
        return Scope(extended(scope.node, items), tuple(columns))

    def _names(self, names: Sequence[str]) -> tuple[str, ...]:
        return names_under(self.join.this.args.get("alias"), self.join.this.alias, names)

    def _with_values_of_no_rows(self, joined: Scope, fields: list[str], there: str) -> tuple[Scope, list[str]]:
        """The columns with the values of aggregates over no rows, such as a count of 0, where there is no row."""
        context, names = self.subqueries.context, UniqueNames(f.name for f in joined.node.schema)
        types = types_of(joined, context)
        items: list[Item] = []
        filled: list[str] = []
        for field, expression in zip(fields, self.select.expressions, strict=False):
            default = value_of_no_rows(expression.unalias(), context.catalog)
            if default is None:
                filled.append(field)
                continue
            missing = exp.Is(this=field_of(there), expression=exp.Null())
            none = bind(default, joined, context, ClauseContext("SELECT"))
            value = exp.Case().when(missing, none).else_(field_of(field))
            items.append(Item(names.unique(field), value, types.of(value)))
            filled.append(items[-1].name)
        return joined.over(extended(joined.node, items)) if items else joined, filled
