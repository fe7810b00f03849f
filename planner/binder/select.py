"""SELECT: FROM, WHERE, then a projection or an aggregation, and what is computed above the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.trees import ARG, clauses_of
from sqlstream.planner.binder.aggregation import bind_aggregation, bind_distinct
from sqlstream.planner.binder.calls import (
    PANES,
    SPARK_WINDOWS,
    TIME_MARKERS,
    WINDOW_PROPERTIES,
    aggregate_name,
    with_positions,
)
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import BindQuery, Context, Relation, refuse_rest
from sqlstream.planner.binder.correlation import Correlation, without_order
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.firing import refuse_clauses, with_emit
from sqlstream.planner.binder.generators import generate, is_generator
from sqlstream.planner.binder.grouping import aliased, with_written_keys
from sqlstream.planner.binder.hints import state_ttls
from sqlstream.planner.binder.match_recognize import with_matches
from sqlstream.planner.binder.ordering import filter_rank, is_ordered
from sqlstream.planner.binder.over import with_overs
from sqlstream.planner.binder.quantifiers import without_quantifiers
from sqlstream.planner.binder.scope import Scope, Selected, Visible, expand, with_processing_time
from sqlstream.planner.binder.select_list import (
    is_aggregation,
    with_all_keys,
    with_computed_aliases,
    with_lateral_aliases,
)
from sqlstream.planner.binder.sources import bind_from
from sqlstream.planner.binder.subqueries import Subqueries, limited_select, without_subqueries
from sqlstream.planner.binder.windows import attribute_kept_hint, watermarked_columns
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.expressions import (
    as_expression,
    conjunction,
    conjuncts,
    has_subquery,
    names_in,
    rewritten,
    with_children_changed,
)
from sqlstream.planner.fields import Field, Item, UniqueNames, field_name, field_of, shown_name
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name
from sqlstream.planner.nodes import Filter, Project
from sqlstream.planner.operators.current_watermark import CurrentWatermark

_CONSUMED = (
    "with_", "expressions", "from_", "joins", "laterals", "where", "group", "having", "order", "sort", "distribute",
    "cluster", "hint", "match", ARG,
)  # fmt: skip


_OVER = ("qualify", "windows")


def bind_select(
    select: exp.Select, context: Context, bind_query: BindQuery, correlation: Correlation | None = None
) -> Relation:
    """Plans one SELECT. Returns its plan with the names of its columns. ``correlation`` is given for a subquery, and is
    filled with what it reads of the outer query.
    """
    refuse_rest(select, (*_CONSUMED, *_OVER, "distinct"), context)
    select = without_quantifiers(with_positions(select, context))
    ttls = state_ttls(select, context)
    context = replace(context, ttl_of=ttls.of)
    subqueries = Subqueries(context, lambda query, inside, read: _subquery(query, inside, bind_query, read))
    start = correlation.start_of(select, context) if correlation is not None else None
    scope, where = bind_from(select, context, bind_query, subqueries, start)
    select = with_all_keys(with_lateral_aliases(select, scope, context), scope, context)
    if correlation is not None:
        aggregates = is_aggregation(select, context)
        select, where, scope = correlation.split(select, where, scope, aggregates=aggregates, context=context)
    relation = _selected(select, scope, where, subqueries, context)
    distinct = select.args.get("distinct")
    if distinct is not None:
        refuse_rest(distinct, (), context)
        relation = bind_distinct(relation, distinct, scope.tables, context)
    ttls.finish(scope.tables, context)
    return relation


def _subquery(query: exp.Expr, context: Context, bind_query: BindQuery, correlation: Correlation) -> Relation:
    """The relation of a subquery. One that reads the query around is a SELECT without WITH; where it has a LIMIT,
    ``correlation`` says of which rows, and the relation has all of them."""
    inner = without_order(query, correlation)
    if not isinstance(inner, exp.Select) or inner.args.get("with_"):
        return bind_query(inner, context)
    if not is_ordered(inner):
        return bind_select(inner, context, bind_query, correlation)
    limited = limited_select(inner)
    if limited is None:
        return bind_query(inner, context)
    plain, correlation.limited = limited
    relation = bind_select(plain, context, bind_query, correlation)
    if correlation.conditions:
        return relation
    correlation.limited = None
    return bind_query(inner, context)


def _selected(
    select: exp.Select, scope: Scope, where: exp.Expr | None, subqueries: Subqueries, context: Context
) -> Relation:
    """The plan of a SELECT without DISTINCT over the scope of FROM."""
    scope = with_matches(select, scope, context)  # above, the columns of the matches are all there is
    select, where, scope = with_watermark(select, where, scope, context)
    if where is not None:
        scope = _filtered(where, scope, subqueries, context)
    if is_aggregation(select, context):
        return _aggregated(select, scope, subqueries, context)
    refuse_clauses(clauses_of(select), context)
    scope, columns = with_computed_aliases(expand(select.expressions, scope, context), scope, context)
    relation = _projection(select, columns, scope, subqueries, context)
    return Relation(with_emit(clauses_of(select).emit, relation.node, select, context), relation.names)


def _aggregated(select: exp.Select, scope: Scope, subqueries: Subqueries, context: Context) -> Relation:
    """The plan of the groups, and above it what is computed from whole groups."""
    above = above_groups(select, scope, context)
    if above is None:
        refuse_rest(select, (*_CONSUMED, "distinct"), context)
        return bind_aggregation(*with_values_below(select, scope, subqueries.valued, context), context)
    groups = bind_aggregation(*with_values_below(above.groups, scope, subqueries.valued, context), context)
    context.stop_if_wrong()
    of_groups = subqueries.filtered(above.scope(groups, scope), above.conditions)
    return _projection(above.select, above.columns, of_groups, subqueries, context)


def _filtered(where: exp.Expr, scope: Scope, subqueries: Subqueries, context: Context) -> Scope:
    """The filter of WHERE. Conditions with subqueries apply to the rows that all others leave."""
    plain, asking = without_subqueries(where)
    if plain is not None:
        condition = bind_condition(plain, scope, context, ClauseContext("WHERE"))
        scope = scope.over(filter_rank(Filter(scope.node, condition), context, where))
    return subqueries.filtered(scope, asking)


def _projection(
    select: exp.Select, columns: list[Selected], scope: Scope, subqueries: Subqueries, context: Context
) -> Relation:
    scope, columns = with_processing_time(columns, scope)
    scope, columns, asking = with_overs(select, columns, scope, context)
    scope = subqueries.filtered(scope, asking)
    scope, columns = _generated(columns, scope, context)
    scope, columns = subqueries.selected(columns, scope)
    names, items = UniqueNames(), []
    for column in columns:
        items.append(item(column, scope, context, names))
    return Relation(Project(scope.node, tuple(items)), tuple(c.name for c in columns))


def item(column: Selected, scope: Scope, context: Context, names: UniqueNames) -> Item:
    """Binds one column of the select list over ``scope``. Returns it as an item of a projection, whose name is unique
    among ``names``. A time attribute stays one, also under a new name.
    """
    bound = (
        column.bound if column.bound is not None else bind(column.expression, scope, context, ClauseContext("SELECT"))
    )
    types = types_of(scope, context)
    field = scope.fields.get(bound.name) if isinstance(bound, exp.Column) else None
    name = names.unique(field_name(column.name, column.expression))
    return Item(name, bound, types.of(bound), types.nullable(bound), field.time if field else None)


def _generated(columns: list[Selected], scope: Scope, context: Context) -> tuple[Scope, list[Selected]]:
    """Each generator in the select list becomes a Correlate above the previous one. As in Spark, every row of one is
    combined with every row of the next."""
    shown: list[Selected] = []
    for column in columns:
        if column.bound is not None or not is_generator(column.expression, context):
            shown.append(column)
            continue
        node, names = generate(column.expression, list(column.aliases), scope, False, context)
        outputs = zip(names, node.outputs, strict=True)
        shown += [Selected(name, column.expression, field_of(field.name)) for name, field in outputs]
        scope = scope.over(node)
    return scope, shown


# --- OVER, QUALIFY and subqueries above groups ----------------------------------------------------------------

_OF_GROUPS = WINDOW_PROPERTIES | PANES | SPARK_WINDOWS | TIME_MARKERS | {"grouping", "grouping_id", "window_time"}
_GROUP_PREFIX = "__of_group"

Valued = Callable[[exp.Expr, Scope], tuple[Scope, exp.Expr]]
"""Replaces the subqueries of an expression by columns of the returned scope."""


@dataclass(frozen=True)
class AboveGroups:
    """A grouped SELECT divided into two queries: ``groups`` computes the groups, and the query above it computes OVER,
    QUALIFY and subqueries.

    Of the query above, ``columns`` is the select list, ``select`` has QUALIFY and WINDOW, ``conditions`` are those
    conditions of HAVING that contain subqueries. ``read`` are the expressions that it needs from each group: column i
    of ``groups`` computes ``read[i]``.
    """

    groups: exp.Select
    columns: list[Selected]
    select: exp.Select
    conditions: list[exp.Expr]
    read: tuple[exp.Expr, ...]

    def scope(self, relation: Relation, below: Scope) -> Scope:
        """The scope in which the query above the grouping is bound: the columns of the groups, and the names by which
        subqueries refer to grouping keys. ``relation`` is the bound ``groups``, ``below`` the scope of FROM.
        """
        fields = enumerate(relation.fields)
        visible = [Visible(_group_column(i).name, f.name, _GROUP_PREFIX, starred=False) for i, f in fields]
        named: dict[tuple[str, str | None], Visible] = {}  # a key may be written with its table and without
        for written, field in zip(self.read, relation.fields, strict=True):
            if isinstance(written, exp.Column):
                for v in _names_of_field(written, below):
                    named.setdefault((v.name, v.table), replace(v, field=field.name, starred=False))
        return Scope(relation.node, (*visible, *named.values()))


def is_above(expression: exp.Expr) -> bool:
    """True if a part of the expression must be computed after grouping: OVER or a subquery."""
    return has_subquery(expression) or expression.find(exp.Window) is not None


def above_groups(select: exp.Select, scope: Scope, context: Context) -> AboveGroups | None:
    """Divides a grouped SELECT into two queries; None if nothing must be computed after grouping."""
    having, qualify = select.args.get("having"), select.args.get("qualify")
    written = [*select.expressions, *(clause for clause in (having, qualify) if clause is not None)]
    if qualify is None and not any(map(is_above, written)):
        return None
    columns = expand(select.expressions, scope, context)
    groups = with_written_keys(select, scope)
    parting = _GroupReader(groups, columns, scope, context)
    above = [replace(c, expression=parting.above(c.expression), bound=None) for c in columns]
    conditions = conjuncts(having.this) if having is not None else []
    asking = [parting.above(parting.named(c)) for c in conditions if has_subquery(c)]
    plain = [c for c in conditions if not has_subquery(c)]
    query = exp.Select()
    query.set("qualify", exp.Qualify(this=parting.above(qualify.this)) if qualify is not None else None)
    query.set("windows", [with_children_changed(w, parting.above) for w in select.args.get("windows") or ()])
    having = exp.Having(this=conjunction([as_expression(parting.named(c)) for c in plain])) if plain else None
    for key, value in (("having", having), ("qualify", None), ("windows", None), ("distinct", None)):
        groups.set(key, value)
    read = parting.read or [exp.Count(this=exp.Star())]
    groups.set(
        "expressions", [exp.Alias(this=e.copy(), alias=n) for e, n in zip(read, _group_aliases(read), strict=True)]
    )
    return AboveGroups(groups, above, query, asking, tuple(read))


def with_values_below(groups: exp.Select, scope: Scope, valued: Valued, context: Context) -> tuple[exp.Select, Scope]:
    """Moves the subqueries in GROUP BY and in aggregates of a grouped SELECT below the grouping: joins with them add
    their values to the rows. Returns a pair: the SELECT, in which columns replace the subqueries, and the scope of the
    rows with these columns. ``valued`` binds the subqueries of one expression.
    """
    group = groups.args.get("group")
    keys = list(_group_terms(group)) if group is not None else []
    having = [groups.args["having"]] if groups.args.get("having") else []
    calls = [call for e in (*groups.expressions, *having) for call in _aggregate_calls(e, context)]
    values: dict[exp.Expr, exp.Expr] = {}
    for below in (*keys, *calls):
        if has_subquery(below) and below not in values:
            scope, values[below] = valued(below, scope)
    if not values:
        return groups, scope

    def value(node: exp.Expr) -> exp.Expr:
        return values[node].copy() if node in values else with_children_changed(node, value)

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


class _GroupReader:
    """Rewrites expressions above the groups, and collects in ``read`` what they read of a group."""

    def __init__(self, groups: exp.Select, columns: list[Selected], scope: Scope, context: Context) -> None:
        self.read: list[exp.Expr] = []
        self._scope = scope
        self._context = context
        self._expressions = groups.expressions
        self._aliases = {name.casefold() for column in columns for name in column.aliases}
        group = groups.args.get("group")
        written = list(_group_terms(group)) if group is not None else []
        self._columns = [key for key in written if isinstance(key, exp.Column)]
        self._keys = [key for key in written if not isinstance(key, exp.Column)]
        self._bound = [self._of_below(key) for key in self._keys]

    def named(self, condition: exp.Expr) -> exp.Expr:
        """A condition of HAVING without aliases of the select list, which precede names of FROM there."""

        def value(node: exp.Expr) -> exp.Expr:
            aliased_value = (
                aliased(node.name, self._expressions) if isinstance(node, exp.Column) and not node.table else None
            )
            return aliased_value.copy() if aliased_value is not None else node

        return condition.copy().transform(value)

    def above(self, node: exp.Expr) -> exp.Expr:
        """A copy that reads the groups' expressions as columns."""
        if isinstance(node, exp.Query):
            return self._column(node) if node in self._keys else self._reading_keys(node)
        if isinstance(node, exp.Window):
            return with_children_changed(
                node, lambda child: self._called(child) if child is node.this else self.above(child)
            )
        if self._is_of_group(node):
            return self._column(node)
        return with_children_changed(node, self.above)

    def _reading_keys(self, query: exp.Query) -> exp.Expr:
        """A subquery that reads values of the groups as columns: keys, and, where their columns name their tables,
        computed keys and aggregates of the rows below the groups. Other columns of these rows are read as well: the
        binding of the groups reports them."""
        names = names_in(query)
        outer = {id(column) for column in names.outer if self._scope.knows(column)}
        for key in self._columns:
            if key.name.casefold() in names.columns:
                self._column(key)
        keys = [key for key in map(self._of_below, self._columns) if isinstance(key, exp.Column)]

        def value(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Query):
                return node
            if isinstance(node, exp.Column):
                return node if id(node) not in outer or self._of_below(node) in keys else self._column(node)
            columns = list(node.find_all(exp.Column))
            of_outer = bool(columns) and all(id(column) in outer for column in columns)
            return self._column(node) if of_outer and self._is_of_group(node) else node

        return rewritten(query, value) if outer else query

    def _called(self, call: exp.Expr) -> exp.Expr:
        """The function before OVER: it is itself computed above the groups, its arguments may be read of them."""
        if isinstance(call, AGGREGATE_WRAPPERS):
            return with_children_changed(
                call, lambda child: self._called(child) if child is call.this else self.above(child)
            )
        return with_children_changed(call, self.above)

    def _is_of_group(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Column):
            return bool(node.table or self._scope.find(node.name) or node.name.casefold() not in self._aliases)
        if aggregate_name(node, self._context.catalog) is not None:
            return True
        if isinstance(node, exp.Func) and spark_name(node) in _OF_GROUPS:
            return True
        if node in self._keys:
            return True
        bound = self._of_below(node) if type(node) in map(type, self._keys) else None
        return bound is not None and bound in self._bound

    def _of_below(self, expression: exp.Expr) -> exp.Expr | None:
        """The expression bound over the rows below the groups; None where that fails."""
        quiet = replace(self._context, problems={})
        if is_above(expression):
            return None
        bound = bind(expression.copy(), self._scope, quiet, ClauseContext("GROUP BY", aggregates=True))
        return None if quiet.problems else bound

    def _column(self, node: exp.Expr) -> exp.Column:
        if node not in self.read:
            self.read.append(node)
        return _group_column(self.read.index(node))


def _group_column(number: int) -> exp.Column:
    """With a table's name, by which subqueries of subqueries read it, too."""
    return exp.column(f"{_GROUP_PREFIX}_{number}", table=_GROUP_PREFIX)


def _group_aliases(read: list[exp.Expr]) -> Iterator[exp.Identifier]:
    names = UniqueNames()
    return (exp.to_identifier(names.unique(field_name(shown_name(e), e)), quoted=True) for e in read)


def _group_terms(group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of GROUP BY and of its grouping sets."""
    terms = [*group.expressions, *(t for key in ("grouping_sets", "cube", "rollup") for t in group.args.get(key) or ())]
    for term in terms:
        plain = term if isinstance(term, exp.Query) else term.unnest()
        if isinstance(plain, exp.Tuple | exp.Cube | exp.Rollup | exp.GroupingSets):
            yield from _group_terms(plain)
        else:
            yield plain


def _names_of_field(column: exp.Column, scope: Scope) -> list[Visible]:
    """All names of the field that a column stands for."""
    columns = scope.find(column.name, column.table or None)
    fields = {visible.field for visible in columns}
    return [visible for visible in scope.columns if visible.field in fields]


# --- CURRENT_WATERMARK(ts) ------------------------------------------------------------------------------------

_CURRENT_WATERMARK = "current_watermark"
_WITH_WATERMARK = (TimeDomain.EVENT, TimeDomain.INGESTION)
_DECLARE_WATERMARK = "Declare one in CREATE TABLE: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."


def with_watermark(
    select: exp.Select, where: exp.Expr | None, scope: Scope, context: Context
) -> tuple[exp.Select, exp.Expr | None, Scope]:
    """Replaces CURRENT_WATERMARK(…) in a query by a column. Returns the SELECT, its WHERE and the scope that has the
    column.

    An additional operator adds the watermark at which each row arrived. Calls in HAVING and elsewhere after grouping
    are refused later, because a group has no time of arrival. BindError SS210 for arguments without a watermark,
    UnsupportedError SS325 for updating rows.
    """
    group = select.args.get("group")
    written = [e for e in (where, *select.expressions, group) if e is not None]
    calls = [call for expression in written for call in _watermark_calls(expression)]
    if not calls:
        return select, where, scope
    times = [field for call in calls if (field := _watermarked_field(call, scope, context)) is not None]
    watermark: exp.Expr = exp.Null()
    if times:
        name = UniqueNames([*scope.fields, *(column.name for column in scope.columns)]).unique(_CURRENT_WATERMARK)
        node = CurrentWatermark(scope.node, times[0].name, Field(name, times[0].type))
        scope = scope.with_columns(check_changes(node, context, calls[0]), (Visible(name, name, starred=False),))
        watermark = exp.column(exp.to_identifier(name, quoted=True))
    changed = select.copy()
    changed.set("expressions", [_named_watermark(e, watermark) for e in select.expressions])
    changed.set("group", None if group is None else _with_watermark_column(group, watermark))
    return changed, None if where is None else _with_watermark_column(where, watermark), scope


def _watermark_calls(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The calls in an expression, without those of its subqueries."""
    return filter(_is_watermark_call, expression.walk(prune=lambda node: isinstance(node, exp.Query)))


def _is_watermark_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and spark_name(node) == _CURRENT_WATERMARK


def _watermarked_field(call: exp.Expr, scope: Scope, context: Context) -> Field | None:
    """The time attribute that a call names."""
    arguments = call.expressions
    if len(arguments) != 1:
        context.wrong("SS207", f'function "{_CURRENT_WATERMARK}" takes 1 argument, not {len(arguments)}', call)
        return None
    try:
        resolved = scope.resolve(arguments[0]) if isinstance(arguments[0], exp.Column) else None
    except SqlStreamError as error:
        context.report(error)
        return None
    field = scope.fields.get(resolved.name) if isinstance(resolved, exp.Column) else None
    if field is not None and field.time in _WITH_WATERMARK:
        return field
    names = [f'"{c.name}"' for c in scope.columns if scope.fields[c.field].time in _WITH_WATERMARK]
    marked = watermarked_columns(scope)
    hint = attribute_kept_hint(marked) if marked else _DECLARE_WATERMARK
    hint = f"{' and '.join(names)} has one." if names else hint
    context.wrong("SS210", "CURRENT_WATERMARK needs a column with a watermark", arguments[0], hint)
    return None


def _named_watermark(expression: exp.Expr, watermark: exp.Expr) -> exp.Expr:
    """A column of the select list with the calls replaced; it keeps its name."""
    if next(_watermark_calls(expression), None) is None:
        return expression
    replaced = _with_watermark_column(expression, watermark)
    if isinstance(expression, exp.Alias | exp.Aliases):
        return replaced
    return exp.Alias(this=replaced, alias=exp.to_identifier(shown_name(expression), quoted=True))


def _with_watermark_column(node: exp.Expr, watermark: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Query):
        return node.copy()
    if _is_watermark_call(node):
        return watermark.copy()
    return with_children_changed(node, lambda child: _with_watermark_column(child, watermark))
