"""FROM: tables, views, subqueries, VALUES, table functions, and the joins between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream.errors import Span, SqlStreamError
from sqlstream.functions.result_types import common_type, incompatible
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.nodes import TableClauses, TableFunction, WatermarkDelay
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG, table_clauses_of, table_function_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.barriers import align_barriers
from sqlstream.planner.binder.changelogs import CHANGELOG_FUNCTIONS, changelog_function, with_previous_rows
from sqlstream.planner.binder.context import BindQuery, Context, Relation, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.generators import (
    correlate,
    gives_rows,
    pivoted,
    table_call,
    with_rows,
    without_table,
)
from sqlstream.planner.binder.hints import (
    LookupHints,
    lookup_hints,
    misplaced_lookup,
    refuse_lookup_clause,
    with_hinted_options,
)
from sqlstream.planner.binder.join_conditions import is_always_true
from sqlstream.planner.binder.joins import WhereConditions, in_order_of_keys, in_order_of_text, stream_join
from sqlstream.planner.binder.laterals import is_lateral_query, lateral_join, lateral_kind
from sqlstream.planner.binder.lookups import (
    TIME_TRAVEL,
    is_looked_up,
    is_time_travel,
    joined_as_of,
    lookup_call,
    lookup_function_of,
    lookup_join,
)
from sqlstream.planner.binder.process_functions import process_function
from sqlstream.planner.binder.scope import Scope, names_under, scope_of
from sqlstream.planner.binder.subqueries import Subqueries, without_subqueries_on
from sqlstream.planner.binder.tables import delay_ms, in_whole_milliseconds, on_error_of, read_table
from sqlstream.planner.binder.temporal_joins import (
    asof_join,
    snapshot_of,
    snapshot_source,
    snapshot_without_left,
    temporal_join,
)
from sqlstream.planner.binder.time_travel import as_it_was, constant_as_of
from sqlstream.planner.binder.windows import SIGNATURES, window_function
from sqlstream.planner.catalog import APPEND_ONLY, ONE_ROW, Catalog, Table, TimeDomain, View
from sqlstream.planner.changes import is_upsert
from sqlstream.planner.expressions import as_expression, conjunction, conjuncts
from sqlstream.planner.fields import Field, UniqueNames
from sqlstream.planner.nodes import AssignTime, Correlate, Filter, Project, Scan, below_projections
from sqlstream.planner.row_values import differ_in_width
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.planner.type_inference import Types, cast

NO_KEY = "SS286"
NO_COLUMNS = "SS652"

_TABLE_ARGS = ("this", "db", "catalog", "alias", "joins", "laterals", "sample", "pivots", ARG)
_EMPTY = frozenset({"", "CROSS", "INNER"})


def bind_from(
    select: exp.Select, context: Context, bind_query: BindQuery, subqueries: Subqueries, start: Scope | None = None
) -> tuple[Scope, exp.Expr | None]:
    """Binds FROM with its joins and lateral views. Returns a pair: the scope of the joined rows, and those conditions
    of WHERE that no join has used and a filter must apply.

    ``start`` has the outer rows for a generator that is the first source of FROM; None for a single row.
    """
    source = select.args.get("from_")
    hints = lookup_hints(select, context)
    if source is None:
        scope, first = _without_from(select), []
    else:
        refuse_rest(source, ("this",), context)
        scope, first = _source(source.this, context, bind_query, start), [source.this]
    where = select.args.get("where")
    given = conjuncts(where.this) if where is not None else []
    where_conditions = WhereConditions(given)
    fulfilled: list[exp.Expr] = []
    written = _steps(*first, select)
    fixed = any(_without_pivots(step)[1] or snapshot_of(step.this, context) for step in written)
    steps = in_order_of_keys(first[0], written, given) if first and not fixed else written
    for whole in steps:
        step, pivots = _without_pivots(whole)
        if not isinstance(step, exp.Join):
            refuse_rest(step, ("this", "view", "outer", "alias"), context)
            scope = correlate(step, step.this, scope, bool(step.args.get("outer")), context)
        elif is_lateral_query(step):
            is_values = isinstance(step.this.this.unnest(), exp.Values)
            scope = _lateral_values(step, scope, context) if is_values else lateral_join(step, scope, subqueries)
        elif _is_asof(step):
            right = _joined_source(step.this, context, bind_query)
            plain, scope, right, asking = without_subqueries_on(step, scope, right, subqueries)
            scope = subqueries.filtered(asof_join(plain, scope, right, context), asking)
        elif (call := snapshot_of(step.this, context)) is not None:
            scope = temporal_join(step, scope, _snapshot(call, step.this, context, bind_query), None, context)
        elif is_time_travel(step.this):
            scope = _as_of(step, scope, context, hints, bind_query)
        elif _is_of_streams(step):
            right = _joined_source(step.this, context, bind_query)
            plain, scope, right, asking = without_subqueries_on(step, scope, right, subqueries)
            # WHERE is about the rows after PIVOT, not about those of the join.
            conditions = () if pivots else where_conditions.of(right)
            scope, implied = stream_join(plain, scope, right, conditions, context)
            fulfilled = [*fulfilled, *implied] if _keeps_left(step) else []
            scope = subqueries.filtered(scope, asking)
        else:
            scope = _join(step, scope, context, hints)
        scope = pivoted(pivots, scope, context)
    hints.finish(context)
    if steps != written:
        scope = in_order_of_text(scope, first[0], written)
    return scope, _rest(where, given, fulfilled)


def _rest(where: exp.Where | None, given: list[exp.Expression], fulfilled: list[exp.Expr]) -> exp.Expr | None:
    """WHERE without the conditions that joins fulfil; ``given`` are all of its conditions."""
    done = set(map(id, fulfilled))
    rest = [condition for condition in given if id(condition) not in done]
    if where is None or len(rest) == len(given):
        return where.this if where is not None else None
    return conjunction(rest) if rest else None


def _without_from(select: exp.Select) -> Scope:
    star = next((e for e in select.expressions if e.is_star), None)
    if star is not None:
        raise bind_error(NO_COLUMNS, "* stands for the columns of FROM, and there is none", star, "Write FROM t.")
    return one_row()


def _keeps_left(join: exp.Join) -> bool:
    """Whether every row of the join has a row of the left side."""
    return (join.args.get("side") or "").upper() not in ("RIGHT", "FULL")


def _steps(*owners: exp.Expr) -> list[exp.Expr]:
    """Joins and lateral views in written order."""
    steps = [s for o in owners for key in ("joins", "laterals") for s in o.args.get(key) or []]
    return sorted(steps, key=lambda step: (span_of(step) or Span(0, 0)).start)


def _without_pivots(step: exp.Expr) -> tuple[exp.Expr, list[exp.Pivot]]:
    """A join without the PIVOTs and UNPIVOTs after it, and those: they apply to the rows of the join, not of its table.

    Those before ON and USING stay in the join, which refuses them.
    """
    if not isinstance(step, exp.Join):
        return step, []
    behind_table = not step.args.get("on") and not step.args.get("using")
    inner = step.this.args.get("pivots") if behind_table and isinstance(step.this, exp.Expr) else None
    own = step.args.get("pivots")
    if not own and not inner:
        return step, []
    plain = step.copy()
    plain.set("pivots", None)
    if inner:
        plain.this.set("pivots", None)
    return plain, [*(inner or ()), *(own or ())]


# --- one source -----------------------------------------------------------------------------------------------


def _source(source: exp.Expr, context: Context, bind_query: BindQuery, start: Scope | None = None) -> Scope:
    match source:
        case exp.Table():
            past = ("version",) if constant_as_of(source) is not None else ()
            refuse_rest(source, (*_TABLE_ARGS, *past), context)
            scope = _table(source, context, bind_query, start)
        case exp.Subquery(this=exp.Table() as first) if not source.alias and _steps(first):
            refuse_rest(source, ("this", "joins", "laterals", ARG), context)
            return _clauses(source, _parenthesised(first, context, bind_query), context)
        case exp.Subquery():
            refuse_rest(source, ("this", "alias", "with_", "joins", "laterals", "sample", "pivots", ARG), context)
            scope = _aliased(bind_query(_unaliased(source), context), source)
        case exp.Lateral(this=exp.Subquery() as query):
            refuse_rest(source, ("this", "view", "outer", "alias"), context)
            return _aliased(bind_query(_unaliased(query), context), source)
        case exp.Unnest() | exp.Lateral():
            return correlate(source, table_call(source, context), start or one_row(), False, context)
        case exp.Values():
            scope = _aliased(bind_values(source, context), source)
        case _:
            raise unsupported.refusal("syntax", span_of(source), f"It is {type(source).__name__.upper()} in FROM.")
    return _clauses(source, scope, context)


def _parenthesised(first: exp.Table, context: Context, bind_query: BindQuery) -> Scope:
    """The scope of joins in parentheses, whose tables keep their names."""
    subqueries = Subqueries(context, lambda query, inside, _: bind_query(query, inside))
    scope, _ = bind_from(exp.Select(from_=exp.From(this=first.copy())), context, bind_query, subqueries)
    return scope


def _unaliased(subquery: exp.Subquery) -> exp.Expr:
    """The query inside parentheses, with the WITH of the parentheses."""
    inner = subquery.this
    if subquery.args.get("with_") is None:
        return as_expression(inner)
    copy = inner.copy()
    copy.set("with_", subquery.args["with_"].copy())
    return as_expression(copy)


def _aliased(relation: Relation, source: exp.Expr, default: str | None = None) -> Scope:
    """The scope of a relation under its alias in FROM, and with the alias's column names. SS216 for a wrong number."""
    names = names_under(source.args.get("alias"), source.alias, relation.names)
    return scope_of(Relation(relation.node, names), source.alias or default)


# --- tables and views -----------------------------------------------------------------------------------------


def _table(table: exp.Table, context: Context, bind_query: BindQuery, start: Scope | None) -> Scope:
    function = table_function_of(table)
    if function is not None:
        return _table_function(function, table, context, bind_query)
    if not isinstance(table.this, exp.Identifier):
        return _called_table(table, start or one_row(), context)
    scope = _aliased(_named(table, context, bind_query), table, table.name)
    return _without_metadata_stars(scope, table, context) if context.settings.not_in_star else scope


def _without_metadata_stars(scope: Scope, table: exp.Table, context: Context) -> Scope:
    """The scope of a table whose ``*`` leaves out the kinds of metadata columns that the session says."""
    name = ".".join(p.name for p in table.parts)
    relation = None if name.casefold() in context.queries else context.catalog.relation(name)
    if not isinstance(relation, Table):
        return scope
    left_out = [any(kind.has(column) for kind in context.settings.not_in_star) for column in relation.columns]
    pairs = zip(scope.columns, left_out, strict=True)
    return replace(scope, columns=tuple(replace(column, starred=not out) for column, out in pairs))


def _argument(source: exp.Expr, context: Context, bind_query: BindQuery) -> Scope:
    """The table argument of a table function. As in Flink, it has all columns, metadata included."""
    scope = _source(source, context, bind_query)
    return replace(scope, columns=tuple(replace(column, starred=True) for column in scope.columns))


def _named(table: exp.Table, context: Context, bind_query: BindQuery) -> Relation:
    """The query of WITH, the view or the table of that name. SS202."""
    name = ".".join(p.name for p in table.parts)
    relation = context.queries.get(name.casefold()) or context.catalog.relation(name)
    if isinstance(relation, Relation | View) and constant_as_of(table) is not None:
        context.refuse("past", table)
    match relation:
        case Relation():
            return relation
        case View():
            return _view(relation, table, context, bind_query)
        case Table():
            given = table_clauses_of(table).hint
            optioned_table = with_hinted_options(relation, given, context.catalog, context.settings.dynamic_options)
            past_table = as_it_was(optioned_table, table, context.catalog, context.settings.zone)
            return _read(past_table, table, context)
    candidates = [*context.queries, *context.catalog.relation_names()]
    hint = did_you_mean(name, candidates, "tables and views") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table or view "{name}" does not exist', table.this, hint)


def _read(source_table: Table, at: exp.Expr, context: Context) -> Relation:
    if source_table.option("role") == "lookup":
        hint = (
            f"Join it: FROM o JOIN {source_table.name} FOR SYSTEM_TIME AS OF o.pt ON …, where pt AS PROCTIME() is in o."
        )
        raise bind_error("SS250", f'table "{source_table.name}" can only be looked up', at, hint)
    if is_upsert(source_table) and not source_table.primary_key:
        hint = "Declare PRIMARY KEY (…) NOT ENFORCED, or 'changelog-mode' = 'I,UB,UA,D' where -U comes as well."
        message = f'table "{source_table.name}" has updates without -U, and no PRIMARY KEY that says of which rows'
        raise bind_error(NO_KEY, message, at, hint)
    return with_previous_rows(
        source_table, read_table(source_table, on_error_of(source_table, at, context)), at.alias_or_name, context
    )


def _view(view: View, at: exp.Expr, context: Context, bind_query: BindQuery) -> Relation:
    """The view's query, bound in a context of its own; its mistakes name the view. SS222."""
    if view.name.casefold() in context.views:
        raise bind_error("SS222", f'view "{view.name}" refers to itself', at)
    inside = context.inside_view(view)

    def bound(catalog: Catalog) -> Relation:
        relation = bind_query(view.query, replace(inside, catalog=catalog))
        inside.stop_if_wrong()
        return relation

    try:
        relation = inside.catalog.cached_for_view(view, context.settings, bound)
    except SqlStreamError as error:
        raise _in_view(error, view) from None
    return Relation(relation.node, view.columns or relation.names)


def _in_view(error: SqlStreamError, view: View) -> SqlStreamError:
    where = f'In view "{view.name}".'
    return SqlStreamError.of(
        replace(d, detail=f"{d.detail} {where}" if d.detail else where, source=d.source or view.text or None)
        for d in error.diagnostics
    )


# --- clauses of a table ---------------------------------------------------------------------------------------


def _clauses(source: exp.Expr, scope: Scope, context: Context) -> Scope:
    """The clauses after a source, in the order in which they apply: WATERMARK, TABLESAMPLE, ALIGN BARRIERS, PIVOT."""
    clauses = table_clauses_of(source)
    _refuse_hint(source, clauses, context)
    refuse_lookup_clause(source, context, "a lookup join")
    scope = _watermark(clauses.watermark, scope, context) if clauses.watermark else scope
    sample = source.args.get("sample")
    scope = sampled(sample, scope, context) if sample is not None else scope
    scope = align_barriers(clauses.barriers, scope, context) if clauses.barriers else scope
    return pivoted(source.args.get("pivots") or (), scope, context)


def _refuse_hint(source: exp.Expr, clauses: TableClauses, context: Context) -> None:
    """Refuse a hint after anything that is no table of the catalog."""
    if clauses.hint is None:
        return
    name = ".".join(p.name for p in source.parts) if isinstance(source, exp.Table) else ""
    if name.casefold() in context.queries or not isinstance(context.catalog.relation(name), Table):
        context.refuse("hint", clauses.hint.span)


def _watermark(clause: WatermarkDelay, scope: Scope, context: Context) -> Scope:
    name = clause.column.name
    resolved = bind(exp.column(clause.column.copy()), scope, context, ClauseContext("WATERMARK"))
    field = scope.fields.get(resolved.name)
    scans = [n for n in scope.node.walk() if isinstance(n, Scan)]
    if field is None or not isinstance(resolved, exp.Column):
        return scope
    if any(isinstance(n, AssignTime) and n.domain is TimeDomain.EVENT for n in scope.node.walk()):
        context.wrong("SS214", "the table has a WATERMARK already", clause.span, "Remove one of the two.")
    if not (field.type.is_timestamp or field.type.is_unknown):
        context.wrong("SS214", f'column "{name}" of WATERMARK is of type {field.type}, not TIMESTAMP', clause.span)
    if len(scans) != 1:
        _misplaced_watermark(clause, context)
        return scope
    delay, table = delay_ms(clause.delay), scans[0].table
    below = below_projections(scope.node, field.name)
    finer = below is None or not isinstance(below[0], Scan) or not in_whole_milliseconds(below[1], table)
    marked = AssignTime(scope.node, field.name, delay, TimeDomain.EVENT, table.name, sub_millisecond=finer)
    return scope.over(marked)


def _misplaced_watermark(clause: WatermarkDelay, context: Context) -> None:
    message = "WATERMARK in FROM needs a table, or a subquery of one table"
    context.wrong("SS214", message, clause.span, "Declare the WATERMARK in CREATE TABLE.")


def sampled(sample: exp.Expr, scope: Scope, context: Context) -> Scope:
    """Binds TABLESAMPLE (n PERCENT) on a stream, which keeps each row with that probability.

    UnsupportedError SS332 for a number of rows, buckets, REPEATABLE, and updating rows. Spark draws new numbers in each
    micro-batch whatever the seed is, so REPEATABLE is possible only over finished data.
    """
    percent = sample.args.get("percent")
    if percent is None or sample.args.get("seed") is not None or scope.node.changelog_mode != APPEND_ONLY:
        raise unsupported.refusal("sample", span_of(sample))
    refuse_rest(sample, ("percent",), context)
    random = exp.Anonymous(this="RAND", expressions=[])
    share = exp.Div(this=percent.copy(), expression=exp.Literal.number(100), typed=False, safe=False)
    condition = exp.LT(this=random, expression=share)
    return scope.over(Filter(scope.node, bind_condition(condition, scope, context, ClauseContext("TABLESAMPLE"))))


# --- table functions ------------------------------------------------------------------------------------------


def _table_function(function: TableFunction, table: exp.Table, context: Context, bind_query: BindQuery) -> Scope:
    """A table function under its alias; without an alias, columns of a window function keep the table's name."""
    if snapshot_of(table, context) is not None:
        raise snapshot_without_left(function)
    if function.name.upper() in CHANGELOG_FUNCTIONS and context.catalog.function(function.name) is None:
        scope = changelog_function(function, context, lambda source: _argument(source, context, bind_query))
    elif function.name.upper() not in SIGNATURES:
        catalogued = context.catalog.function(function.name)
        if catalogued is None:
            hint = did_you_mean(
                function.name.upper(), [*SIGNATURES, *context.catalog.function_names()], "window functions"
            )
            raise bind_error("SS203", f'table function "{function.name}" does not exist', function.span, hint)
        if catalogued.process is None:
            raise unsupported.refusal("process function", function.span)
        scope = process_function(function, catalogued, context, lambda source: _argument(source, context, bind_query))
    else:
        scope = window_function(function, context, lambda source: _argument(source, context, bind_query))
    return _under_alias(table, scope)


def _under_alias(table: exp.Table, scope: Scope) -> Scope:
    if not table.alias:
        return scope
    return _aliased(Relation(scope.node, tuple(c.name for c in scope.columns)), table)


def _snapshot(call: TableFunction, table: exp.Expr, context: Context, bind_query: BindQuery) -> Scope:
    assert isinstance(table, exp.Table)
    refuse_rest(table, _TABLE_ARGS, context)
    scope = snapshot_source(call, lambda source: _source(source, context, bind_query))
    return _clauses(table, _under_alias(table, scope), context)


def _called_table(table: exp.Table, start: Scope, context: Context) -> Scope:
    """``FROM f(x)`` and ``FROM TABLE(f(x))`` without a table argument: the rows that a generator or a table function
    makes of those of ``start``."""
    call = without_table(table.this)
    if gives_rows(call, context):
        return correlate(table, call, start, False, context)
    name = table.this.name or table.this.sql(SqlStream)
    if name.upper() in SIGNATURES:
        hint = f"Write FROM {name.upper()}(TABLE t, DESCRIPTOR(ts), …)."
        raise bind_error("SS220", f"{name.upper()} in FROM needs TABLE and DESCRIPTOR arguments", table, hint)
    raise unsupported.refusal("process function", span_of(table), f'"{name}" reads no table before it in FROM.')


# --- joins ----------------------------------------------------------------------------------------------------


def _is_of_streams(join: exp.Join) -> bool:
    return isinstance(join.this, exp.Table | exp.Subquery | exp.Values) and not is_time_travel(join.this)


def _is_asof(join: exp.Join) -> bool:
    return join.text("method").upper() == "ASOF" and _is_of_streams(join)


def _as_of(join: exp.Join, scope: Scope, context: Context, hints: LookupHints, bind_query: BindQuery) -> Scope:
    """FOR SYSTEM_TIME AS OF: a lookup in an external table, or a join with the current or past rows of a stream."""
    time = joined_as_of(join.this, scope)
    if time.time is TimeDomain.PROCESSING and is_looked_up(join.this, context):
        _refuse_clauses_but_lookup(join.this, context)
        return lookup_join(join, scope, context, hints)
    clause = table_clauses_of(join.this).lookup
    if clause is not None:
        raise misplaced_lookup(clause, "a table that answers lookups, not a stream")
    present = join.this.copy()
    for key in TIME_TRAVEL:
        present.set(key, None)
    return temporal_join(join, scope, _joined_source(present, context, bind_query), time.name, context)


def _joined_source(right: exp.Expr, context: Context, bind_query: BindQuery) -> Scope:
    clauses = table_clauses_of(right)
    if clauses.lookup is not None:
        raise misplaced_lookup(clauses.lookup, "FOR SYSTEM_TIME AS OF before it")
    if right.args.get("pivots"):
        context.refuse("pivot", right.args["pivots"][0])
    return _source(right, context, bind_query)


def _join(join: exp.Join, scope: Scope, context: Context, hints: LookupHints) -> Scope:
    """CROSS JOIN and LEFT JOIN … ON TRUE of UNNEST and LATERAL TABLE. UnsupportedError SS301 for other joins."""
    right = join.this
    if not isinstance(right, (exp.Unnest, exp.Lateral)):
        raise _refused_join(join)
    side = (join.args.get("side") or "").upper()
    if side not in ("", "LEFT") or (join.args.get("kind") or "").upper() not in _EMPTY | {"OUTER"}:
        raise _refused_join(join)
    refuse_rest(join, ("this", "side", "kind", "on"), context)
    _refuse_clauses_but_lookup(right, context)
    call, on = table_call(right, context), join.args.get("on")
    if lookup_function_of(call, context) is not None:
        if not is_always_true(on):
            raise unsupported.refusal("join", span_of(join), "A lookup function takes ON TRUE only.")
        return lookup_call(right, call, scope, side == "LEFT", context, hints)
    refuse_lookup_clause(right, context, "a coroutine of CREATE FUNCTION here")
    return correlate(right, call, scope, side == "LEFT", context, None if is_always_true(on) else on)


def _refuse_clauses_but_lookup(right: exp.Expr, context: Context) -> None:
    """Refuse all clauses of a joined table except LOOKUP ASYNC."""
    clauses = replace(table_clauses_of(right), lookup=None)
    _refuse_hint(right, clauses, context)
    if clauses.barriers is not None:
        context.refuse("barriers", clauses.barriers.span)
    if clauses.watermark is not None:
        _misplaced_watermark(clauses.watermark, context)


def _refused_join(join: exp.Join) -> SqlStreamError:
    right = join.this
    clauses = table_clauses_of(right)
    if clauses.lookup is not None:
        return misplaced_lookup(clauses.lookup, "FOR SYSTEM_TIME AS OF before it")
    if clauses.barriers is not None:
        return unsupported.refusal("barriers", clauses.barriers.span)
    return unsupported.refusal("join", span_of(right))


# --- VALUES, and SELECT without FROM --------------------------------------------------------------------------

WRONG_TYPES = "SS651"
NO_COMMON_TYPE = "SS206"
WRONG_WIDTH = "SS653"


def one_row() -> Scope:
    """The scope of SELECT without FROM: one row, and no names."""
    return Scope(Scan(ONE_ROW, ("row",)), ())


def bind_values(values: exp.Values, context: Context) -> Relation:
    """Plans VALUES. Its rows stay in order, and its columns are ``col1``, … with types that fit all rows. SS206 and
    SS651 for types without a common one, SS653 for rows of different lengths.
    """
    node = _rows_of_values(values, one_row(), context)
    return Relation(Project(node, tuple(output.as_item for output in node.outputs)), _names_of_values(node))


def _lateral_values(join: exp.Join, scope: Scope, context: Context) -> Scope:
    """Binds a join with LATERAL (VALUES …): each row with rows of expressions of it."""
    keeps, on = lateral_kind(join, context)
    lateral = join.this
    node = replace(_rows_of_values(lateral.this.unnest(), scope, context), outer=keeps)
    shown = names_under(lateral.args.get("alias"), lateral.alias, _names_of_values(node))
    return with_rows(scope, node, shown, lateral.alias or None, on, context)


def _names_of_values(node: Correlate) -> tuple[str, ...]:
    return tuple(f"col{position}" for position in range(1, len(node.outputs) + 1))


def _rows_of_values(values: exp.Values, scope: Scope, context: Context) -> Correlate:
    """The rows of VALUES for each row of ``scope``, which its expressions may read."""
    refuse_rest(values, ("expressions", "alias"), context)
    rows = [_bound_row(row, scope, context) for row in values.expressions]
    if len({len(row) for row in rows}) > 1:
        at = next(e for e, row in zip(values.expressions, rows, strict=True) if len(row) != len(rows[0]))
        hint = "Write as many values in each row."
        raise bind_error(WRONG_WIDTH, "rows of VALUES have different numbers of values", at, hint)
    context.stop_if_wrong()
    columns, names = list(zip(*rows, strict=True)), UniqueNames(f.name for f in scope.node.schema)
    outputs = tuple(_values_column(i, column, scope, names, context) for i, column in enumerate(columns, 1))
    types = types_of(scope, context)
    structs = [exp.Anonymous(this="NAMED_STRUCT", expressions=_struct_members(row, outputs, types)) for row in rows]
    call = exp.Inline(this=exp.Array(expressions=structs))
    return Correlate(scope.node, call, outputs)


def _bound_row(row: exp.Expr, scope: Scope, context: Context) -> list[exp.Expression]:
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return [bind(value, scope, context, ClauseContext("VALUES")) for value in values]


def _values_column(
    position: int, column: Sequence[exp.Expression], scope: Scope, names: UniqueNames, context: Context
) -> Field:
    types = types_of(scope, context)
    kinds = [types.of(value) for value in column]
    name = f"col{position}"
    for value, kind in zip(column, kinds, strict=True):
        if incompatible(kinds[0], kind):
            message = f'column "{name}" of VALUES is {kinds[0]} and {kind}'
            if differ_in_width(kinds[0], kind):
                raise bind_error(NO_COMMON_TYPE, message, value, "Write as many values in each row.")
            hint = "Convert one of them, as in CAST(1 AS STRING)."
            if incompatible(kinds[0], kind, texts=True):
                raise bind_error(NO_COMMON_TYPE, message, value, hint)
            raise bind_error(WRONG_TYPES, message, value, hint)  # Spark converts the text
    return Field(names.unique(name), common_type(kinds), any(types.nullable(value) for value in column))


def _struct_members(row: Sequence[exp.Expression], outputs: Sequence[Field], types: Types) -> list[exp.Expression]:
    members: list[exp.Expression] = []
    for value, output in zip(row, outputs, strict=True):
        fits = types.of(value) == output.type or output.type.is_unknown
        members += [exp.Literal.string(output.name), value if fits else cast(value, output.type)]
    return members
