"""Lookup joins: JOIN t FOR SYSTEM_TIME AS OF a processing-time attribute asks ``t`` for the rows of each key."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.trees import ARG, table_clauses_of
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind_condition
from sqlstream.planner.binder.hints import optioned
from sqlstream.planner.binder.lookup_conditions import Split, joined_using, split
from sqlstream.planner.binder.lookup_hints import LookupHints
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.state_ttl import with_time_to_live
from sqlstream.planner.binder.table_lookups import with_options_of
from sqlstream.planner.catalog import Column, Table, TimeDomain, View
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.rewriting import conjunction, conjuncts, is_repeatable
from sqlstream.planner.suggestions import counted, did_you_mean

TIME_TRAVEL = ("version", "when", "system_time")


def is_time_travel(right: exp.Expr) -> bool:
    """True for a table with FOR SYSTEM_TIME, TIMESTAMP or VERSION behind its name."""
    return any(right.args.get(key) for key in TIME_TRAVEL)


def lookup_join(join: exp.Join, scope: Scope, context: Context, hints: LookupHints) -> Scope:
    """The scope with the columns of the looked-up table. BindError SS250 to SS259."""
    right, outer = join.this, _is_outer(join)
    refuse_rest(join, ("this", "side", "kind", "on", "using"), context)
    refuse_rest(right, ("this", "db", "catalog", "alias", ARG, *TIME_TRAVEL), context)
    table = _table(right, context)
    chosen = with_options_of(table, hints.options(right, scope, context))
    items = _outputs(table, right, scope)
    read = tuple(Field(c.name, c.type, c.nullable) for c in table.physical_columns)
    node = Lookup(scope.node, table, (), read, items, outer, options=chosen.options, failed=chosen.failed)
    node = with_time_to_live(check_changes(node, context, right), scope.tables, context)
    joined = scope.with_columns(node, _visible(items, right, table))
    return _on(join, joined, node, context)


def _is_outer(join: exp.Join) -> bool:
    """LEFT or not; SS250 for other joins."""
    side, kind, method = ((join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    if method or side not in ("", "LEFT") or kind not in {"", "INNER", "OUTER"} or (kind == "OUTER" and not side):
        words = " ".join(w for w in (method, side, kind) if w)
        message = f"a lookup join is INNER or LEFT, not {words}"
        raise bind_error("SS250", message, join, "The rows of the looked-up table are known only key by key.")
    if not join.args.get("on") and not join.args.get("using"):
        raise bind_error("SS252", "a lookup join needs a condition", join, EQUALITY_HINT)
    return side == "LEFT"


EQUALITY_HINT = "Add an equality of a column of the looked-up table: ON c.id = o.customer_id."


# --- the time -------------------------------------------------------------------------------------------------


def joined_as_of(right: exp.Expr, scope: Scope) -> Field:
    """The time attribute of the left side that AS OF names. BindError SS251."""
    version = right.args.get("version")
    named = isinstance(version, exp.Version) and version.name.upper() == "TIMESTAMP"
    if version is None or not named or version.text("kind").upper() != "AS OF":
        hint = "Write FOR SYSTEM_TIME AS OF o.pt, where pt AS PROCTIME() is a column of the left table."
        raise bind_error("SS251", "a table can be joined as of a time only", right, hint)
    at = version.expression
    value = scope.resolve(at) if isinstance(at, exp.Column) else None
    field = scope.fields[value.name] if isinstance(value, exp.Column) else None
    if field is None or field.time is None:
        message = "FOR SYSTEM_TIME AS OF needs a time attribute of the left side"
        raise bind_error("SS251", message, at, _time_hint(scope))
    return field


def is_looked_up(right: exp.Expr, context: Context) -> bool:
    """False for streams, of which operators keep the present state, for views and queries of WITH."""
    if not isinstance(right, exp.Table) or not isinstance(right.this, exp.Identifier):
        return True
    name = ".".join(p.name for p in right.parts)
    if name.casefold() in context.queries:
        return False
    relation = context.catalog.relation(name)
    return not isinstance(relation, View) and not (isinstance(relation, Table) and relation.streamed)


def _time_hint(scope: Scope) -> str:
    times = [c for c in scope.columns if scope.fields[c.field].time is TimeDomain.PROCESSING]
    if not times:
        return "Join (SELECT *, PROCTIME() AS pt FROM o) AS o, or declare pt AS PROCTIME() in CREATE TABLE: AS OF o.pt."
    name = f"{times[0].table}.{times[0].name}" if times[0].table else times[0].name
    return f"Write FOR SYSTEM_TIME AS OF {name}."


# --- the table ------------------------------------------------------------------------------------------------


def _table(right: exp.Expr, context: Context) -> Table:
    """The looked-up table; SS202, SS250."""
    hint = "Create a table with a connector that can be looked up, and join that."
    if not isinstance(right, exp.Table) or not isinstance(right.this, exp.Identifier):
        raise bind_error("SS250", "FOR SYSTEM_TIME AS OF needs a table", right, hint)
    name = ".".join(p.name for p in right.parts)
    relation = context.catalog.relation(name)
    if isinstance(relation, Table):
        given = table_clauses_of(right).hint
        return optioned(relation, given, context.catalog, context.settings.dynamic_options)
    suggestion = did_you_mean(name, context.catalog.relation_names(), "tables") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table "{name}" does not exist', right.this, suggestion)


def _outputs(table: Table, right: exp.Expr, scope: Scope) -> tuple[Item, ...]:
    """All columns in declared order; computed ones are expressions over the physical ones."""
    names = Names(f.name for f in scope.node.schema)
    for column in table.columns:
        reason = _not_answered(column)
        if reason is not None:
            message = f'column "{column.name}" of the looked-up table "{table.name}" {reason}'
            raise bind_error("SS254", message, right, "Create a table of its own for lookups, without the column.")
    return tuple(
        Item(names.unique(c.name), c.expression or field_of(c.name), c.type, c.nullable) for c in table.columns
    )


def _not_answered(column: Column) -> str | None:
    if column.metadata_key is not None:
        return "is metadata of the connector, which answers do not have"
    if column.time in (TimeDomain.PROCESSING, TimeDomain.INGESTION):
        return f"is {column.time.value}, which answers do not have"
    if column.expression is not None and not is_repeatable(column.expression):
        return "is computed by a Python function or anew at every call"
    return None


def _visible(items: tuple[Item, ...], right: exp.Expr, table: Table) -> tuple[Visible, ...]:
    alias = right.args.get("alias")
    wanted = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if wanted and len(wanted) != len(items):
        message = f'"{right.alias_or_name}" has {counted(len(items), "column")}, not {len(wanted)}'
        raise bind_error("SS216", message, alias)
    shown = wanted or [c.name for c in table.columns]
    return tuple(Visible(n, i.name, right.alias_or_name) for n, i in zip(shown, items, strict=True))


# --- the condition --------------------------------------------------------------------------------------------


def _on(join: exp.Join, scope: Scope, node: Lookup, context: Context) -> Scope:
    """The lookup with its keys and the rest of its condition."""
    using = join.args.get("using")
    if using:
        count = len(scope.columns) - len(node.outputs)
        conditions, columns = joined_using(using, scope.columns[:count], scope.columns[count:])
        scope = Scope(scope.node, columns)
    else:
        conditions = conjuncts(bind_condition(join.args["on"], scope, context, ClauseContext("ON")))
    context.stop_if_wrong()
    conditions_by_use = split(conditions, node, context)
    if not conditions_by_use.keys:
        at = join.args.get("on") or join
        raise bind_error("SS252", "a lookup join needs an equality", at, EQUALITY_HINT)
    return _looked_up(conditions_by_use, scope, node)


def _looked_up(by_use: Split, scope: Scope, node: Lookup) -> Scope:
    """What reads the left side alone is asked before the lookup, what calls Python functions behind it."""
    below, keys = node.input, by_use.keys
    if by_use.left and node.outer:
        first = keys[0]
        guarded = exp.Case(ifs=[exp.If(this=conjunction(list(by_use.left)), true=first.expression)])
        keys = (replace(first, expression=guarded, nullable=True), *keys[1:])
    elif by_use.left:
        below = Filter(below, conjunction(list(by_use.left)))
    rest = conjunction(list(by_use.rest)) if by_use.rest else None
    scope = scope.over(replace(node, input=below, keys=keys, condition=rest))
    return scope.over(Filter(scope.node, conjunction(list(by_use.above)))) if by_use.above else scope
