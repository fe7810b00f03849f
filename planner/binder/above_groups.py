"""What SQL computes after GROUP BY: OVER, QUALIFY and subqueries over groups, as a query above that of the groups.

The query below selects the keys, aggregates and window columns that the one above reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.planner.binder.calls import PANES, SPARK_WINDOWS, TIME_MARKERS, WINDOW_PROPERTIES, aggregate_name
from sqlstream.planner.binder.context import Context, Relation
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.grouping import aliased, with_written_keys
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.select_list import Selected, expand
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.naming import Names, field_name, shown_name
from sqlstream.planner.rewriting import conjunction, conjuncts, has_subquery, node_of, over_children

_OF_GROUPS = WINDOW_PROPERTIES | PANES | SPARK_WINDOWS | TIME_MARKERS | {"grouping", "grouping_id", "window_time"}
_PREFIX = "__of_group"

Valued = Callable[[exp.Expr, Scope], tuple[Scope, exp.Expr]]
"""An expression over a scope that has the values of its subqueries."""


@dataclass(frozen=True)
class AboveGroups:
    """``groups`` is the query of the groups; ``columns`` the select list above it, ``select`` what else is asked there:
    QUALIFY and WINDOW. ``conditions`` are those of HAVING that have subqueries. ``read``: what is read of a group, in
    the order of the columns of ``groups``."""

    groups: exp.Select
    columns: list[Selected]
    select: exp.Select
    conditions: list[exp.Expr]
    read: tuple[exp.Expr, ...]

    def scope(self, relation: Relation, below: Scope) -> Scope:
        """The names over the groups: those that the query above reads, and keys as subqueries name them."""
        visible = [Visible(_name(i), f.name, starred=False) for i, f in enumerate(relation.fields)]
        for written, field in zip(self.read, relation.fields, strict=True):
            if isinstance(written, exp.Column):
                visible += [replace(v, field=field.name, starred=False) for v in _behind(written, below)]
        return Scope(relation.node, tuple(visible))


def is_above(expression: exp.Expr) -> bool:
    """Is something of it computed once the groups are known?"""
    return has_subquery(expression) or expression.find(exp.Window) is not None


def above_groups(select: exp.Select, scope: Scope, context: Context) -> AboveGroups | None:
    """The two queries that a SELECT with groups is; None where it is one."""
    having, qualify = select.args.get("having"), select.args.get("qualify")
    asked = [*select.expressions, *(clause for clause in (having, qualify) if clause is not None)]
    if qualify is None and not any(map(is_above, asked)):
        return None
    columns = expand(select.expressions, scope, context)
    groups = with_written_keys(select, scope)
    parting = _Parting(groups, columns, scope, context)
    above = [replace(c, expression=parting.above(c.expression), bound=None) for c in columns]
    conditions = conjuncts(having.this) if having is not None else []
    asking = [parting.above(parting.named(c)) for c in conditions if has_subquery(c)]
    plain = [c for c in conditions if not has_subquery(c)]
    query = exp.Select()
    query.set("qualify", exp.Qualify(this=parting.above(qualify.this)) if qualify is not None else None)
    query.set("windows", [over_children(w, parting.above) for w in select.args.get("windows") or ()])
    having = exp.Having(this=conjunction([node_of(parting.named(c)) for c in plain])) if plain else None
    for key, value in (("having", having), ("qualify", None), ("windows", None), ("distinct", None)):
        groups.set(key, value)
    read = parting.read or [exp.Count(this=exp.Star())]
    groups.set("expressions", [exp.Alias(this=e.copy(), alias=n) for e, n in zip(read, _names(read), strict=True)])
    return AboveGroups(groups, above, query, asking, tuple(read))


def with_values_below(groups: exp.Select, scope: Scope, valued: Valued, context: Context) -> tuple[exp.Select, Scope]:
    """The query of the groups over rows that have the values of subqueries in its keys and in what it aggregates."""
    group = groups.args.get("group")
    keys = list(_leaves(group)) if group is not None else []
    having = [groups.args["having"]] if groups.args.get("having") else []
    calls = [call for e in (*groups.expressions, *having) for call in _aggregate_calls(e, context)]
    values: dict[exp.Expr, exp.Expr] = {}
    for below in (*keys, *calls):
        if has_subquery(below) and below not in values:
            scope, values[below] = valued(below, scope)
    if not values:
        return groups, scope

    def value(node: exp.Expr) -> exp.Expr:
        return values[node].copy() if node in values else over_children(node, value)

    named = [e if isinstance(e, exp.Alias) else exp.Alias(this=e, alias=shown_name(e)) for e in groups.expressions]
    changed = groups.copy()
    changed.set("expressions", [value(e) for e in named])
    for key in ("group", "having"):
        if groups.args.get(key):
            changed.set(key, value(groups.args[key]))
    return changed, scope


def _aggregate_calls(expression: exp.Expr, context: Context) -> Iterator[exp.Expr]:
    if isinstance(expression, exp.Query):
        return
    if aggregate_name(expression, context.catalog) is not None:
        yield expression
        return
    for child in expression.iter_expressions():
        yield from _aggregate_calls(child, context)


class _Parting:
    """Collects in ``read`` what the query above reads of the groups."""

    def __init__(self, groups: exp.Select, columns: list[Selected], scope: Scope, context: Context) -> None:
        self.read: list[exp.Expr] = []
        self._scope = scope
        self._context = context
        self._expressions = groups.expressions
        self._aliases = {name.casefold() for column in columns for name in column.aliases}
        group = groups.args.get("group")
        written = list(_leaves(group)) if group is not None else []
        self._keys = [key for key in written if not isinstance(key, exp.Column)]
        self._bound = [self._of_below(key) for key in self._keys]

    def named(self, condition: exp.Expr) -> exp.Expr:
        """A condition of HAVING with what names of the select list stand for, which go before those of FROM."""

        def value(node: exp.Expr) -> exp.Expr:
            aliased_value = (
                aliased(node.name, self._expressions) if isinstance(node, exp.Column) and not node.table else None
            )
            return aliased_value.copy() if aliased_value is not None else node

        return condition.copy().transform(value)

    def above(self, node: exp.Expr) -> exp.Expr:
        """A copy that reads groups as columns."""
        if isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Window):
            return over_children(node, lambda child: self._called(child) if child is node.this else self.above(child))
        if self._is_of_group(node):
            return self._column(node)
        return over_children(node, self.above)

    def _called(self, call: exp.Expr) -> exp.Expr:
        """The function before OVER, which is no aggregate of groups itself."""
        if isinstance(call, AGGREGATE_WRAPPERS):
            return over_children(call, lambda child: self._called(child) if child is call.this else self.above(child))
        return over_children(call, self.above)

    def _is_of_group(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Column):
            return bool(node.table or self._scope.find(node.name) or node.name.casefold() not in self._aliases)
        if aggregate_name(node, self._context.catalog) is not None:
            return True
        if isinstance(node, exp.Func) and spark_name(node) in _OF_GROUPS:
            return True
        return node in self._keys or (type(node) in map(type, self._keys) and self._of_below(node) in self._bound)

    def _of_below(self, expression: exp.Expr) -> exp.Expr | None:
        """The expression over the rows below the groups; None where it is about other things."""
        quiet = replace(self._context, problems={})
        if is_above(expression):
            return None
        bound = bind(expression.copy(), self._scope, quiet, ClauseContext("GROUP BY", aggregates=True))
        return None if quiet.problems else bound

    def _column(self, node: exp.Expr) -> exp.Column:
        if node not in self.read:
            self.read.append(node)
        return exp.column(_name(self.read.index(node)))


def _name(number: int) -> str:
    return f"{_PREFIX}_{number}"


def _names(read: list[exp.Expr]) -> Iterator[exp.Identifier]:
    names = Names()
    return (exp.to_identifier(names.unique(field_name(shown_name(e), e)), quoted=True) for e in read)


def _leaves(group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of GROUP BY and of its sets."""
    terms = [*group.expressions, *(t for key in ("grouping_sets", "cube", "rollup") for t in group.args.get(key) or ())]
    for term in terms:
        plain = term.unnest()
        if isinstance(plain, exp.Tuple | exp.Cube | exp.Rollup | exp.GroupingSets):
            yield from _leaves(plain)
        else:
            yield plain


def _behind(column: exp.Column, scope: Scope) -> list[Visible]:
    """All names of the field that a column is."""
    columns = scope.find(column.name, column.table or None)
    fields = {visible.field for visible in columns}
    return [visible for visible in scope.columns if visible.field in fields]
