"""Lookup joins: each row is joined with the rows that an external table or a coroutine returns for its key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.grammar import nodes as syntax
from sqlstream.grammar.nodes import LookupAsync
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG, table_clauses_of
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.changelogs import check_changes
from sqlstream.planner.binder.context import Context, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.hints import (
    HintOptions,
    LookupHints,
    hinted_options,
    pairs_of,
    with_hinted_options,
    with_time_to_live,
)
from sqlstream.planner.binder.inserts import SideRowFields, side_table, side_values
from sqlstream.planner.binder.join_conditions import joined_using
from sqlstream.planner.binder.scope import Scope, Visible, names_under
from sqlstream.planner.binder.time_travel import constant_as_of
from sqlstream.planner.catalog import Column, Function, FunctionKind, Table, TimeDomain, View
from sqlstream.planner.expressions import as_expression, columns_of, conjunction, conjuncts, is_repeatable
from sqlstream.planner.fields import Field, Item, UniqueNames, field_of
from sqlstream.planner.intervals import interval_ms, readable, text_ms
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.lookup import LOOKUP_ERROR, FailedRows, Lookup
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.planner.type_inference import Types, cast
from sqlstream.types import STRING, DataType
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order, Retry

# --- JOIN t FOR SYSTEM_TIME AS OF -----------------------------------------------------------------------------

TIME_TRAVEL = ("version", "when", "system_time")


def is_time_travel(right: exp.Expr) -> bool:
    """Whether a table has FOR SYSTEM_TIME, TIMESTAMP or VERSION after its name, and it is not that of a constant."""
    return any(right.args.get(key) for key in TIME_TRAVEL) and constant_as_of(right) is None


def lookup_join(join: exp.Join, scope: Scope, context: Context, hints: LookupHints) -> Scope:
    """Binds a lookup join, which requests rows of an external table by key. Returns the scope with the columns of both
    sides. BindError SS250 to SS259 for joins that cannot be lookups.
    """
    right, outer = join.this, _is_outer(join)
    refuse_rest(join, ("this", "side", "kind", "on", "using"), context)
    refuse_rest(right, ("this", "db", "catalog", "alias", ARG, *TIME_TRAVEL), context)
    table = _looked_up_table(right, context)
    chosen = with_options_of(table, chosen_options(right, hints, scope, context))
    items = _outputs(table, right, scope)
    read = tuple(Field(c.name, c.type, c.nullable) for c in table.physical_columns)
    node = Lookup(scope.node, table, (), read, items, outer, options=chosen.options, failed=chosen.failed)
    node = with_time_to_live(check_changes(node, context, right), scope.tables, context)
    shown = names_under(right.args.get("alias"), right.alias_or_name, [c.name for c in table.columns])
    visible = tuple(Visible(n, i.name, right.alias_or_name) for n, i in zip(shown, items, strict=True))
    joined = scope.with_columns(node, visible)
    return _with_condition(join, joined, node, context)


def _is_outer(join: exp.Join) -> bool:
    """Whether the join is LEFT. SS250 for other kinds, SS252 without a condition."""
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
    """The field of the left side that FOR SYSTEM_TIME AS OF names. BindError SS251 if it is not a time attribute."""
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
    """True if a join with the table requests its rows by key. False for streams, views and queries of WITH, whose rows
    a join stores instead.
    """
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


def _looked_up_table(right: exp.Expr, context: Context) -> Table:
    """The looked-up table; SS202, SS250."""
    hint = "Create a table with a connector that can be looked up, and join that."
    if not isinstance(right, exp.Table) or not isinstance(right.this, exp.Identifier):
        raise bind_error("SS250", "FOR SYSTEM_TIME AS OF needs a table", right, hint)
    name = ".".join(p.name for p in right.parts)
    relation = context.catalog.relation(name)
    if isinstance(relation, Table):
        given = table_clauses_of(right).hint
        return with_hinted_options(relation, given, context.catalog, context.settings.dynamic_options)
    suggestion = did_you_mean(name, context.catalog.relation_names(), "tables") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table "{name}" does not exist', right.this, suggestion)


def _outputs(table: Table, right: exp.Expr, scope: Scope) -> tuple[Item, ...]:
    """All columns of the table in declared order; computed ones are expressions over the physical ones. SS254."""
    names = UniqueNames(f.name for f in scope.node.schema)
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


# --- the condition --------------------------------------------------------------------------------------------


def _with_condition(join: exp.Join, scope: Scope, node: Lookup, context: Context) -> Scope:
    """The lookup with its keys and the rest of its condition. SS252 without a key."""
    using = join.args.get("using")
    if using:
        count = len(scope.columns) - len(node.outputs)
        conditions, columns = joined_using(using, scope.columns[:count], scope.columns[count:])
        scope = Scope(scope.node, columns)
    else:
        conditions = conjuncts(bind_condition(join.args["on"], scope, context, ClauseContext("ON")))
    context.stop_if_wrong()
    conditions_by_use = split_conditions(conditions, node, context)
    if not conditions_by_use.keys:
        at = join.args.get("on") or join
        raise bind_error("SS252", "a lookup join needs an equality", at, EQUALITY_HINT)
    return _apply_conditions(conditions_by_use, scope, node)


def _apply_conditions(by_use: LookupConditions, scope: Scope, node: Lookup) -> Scope:
    """Conditions on the left side filter before the lookup, those that call Python functions after it."""
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


@dataclass
class LookupConditions:
    """The conditions in ON of a lookup join, by where they are evaluated.

    ``keys``: equalities with key columns, in the order of the keys. ``left``: conditions that read the left side alone.
    ``rest``: conditions evaluated on the rows that the lookup returns. ``above``: conditions that call Python
    functions, for a filter above the join.
    """

    keys: tuple[Item, ...] = ()
    left: list[exp.Expression] = field(default_factory=list)
    rest: list[exp.Expression] = field(default_factory=list)
    above: list[exp.Expression] = field(default_factory=list)


def split_conditions(conditions: Iterable[exp.Expression], node: Lookup, context: Context) -> LookupConditions:
    """Divides the conditions in ON of a lookup join by where they are evaluated. They read the fields of ``node``.
    BindError SS206, SS258 for conditions that do not fit a lookup.
    """
    parts = LookupConditions()
    columns = _key_columns(node)
    outputs = {o.name for o in node.outputs}
    types = Types(node.schema, context.catalog.function)
    for condition in conditions:
        pair = _column_and_value(condition, columns, outputs)
        if pair is not None and pair[0].name not in {k.name for k in parts.keys}:
            column, value = pair
            key, exact = _key(column, value, types, condition, context)
            parts.keys = (*parts.keys, key)
            if not exact:
                _keep_rest(condition, parts, node, context)
        elif not columns_of(condition) & outputs:
            parts.left.append(condition)
        else:
            _keep_rest(condition, parts, node, context)
    return parts


def _keep_rest(condition: exp.Expression, parts: LookupConditions, node: Lookup, context: Context) -> None:
    """Keeps a condition for the answers, or for the rows of the result if it calls a Python function. SS258."""
    if is_repeatable(condition):
        parts.rest.append(condition)
    elif not node.outer:
        parts.above.append(condition)
    else:
        message = "ON of a LEFT lookup join calls a function of Python, or one that differs at every call"
        hint = "Join without LEFT, or call it in the query above."
        context.wrong("SS258", message, condition, hint)


def _key_columns(node: Lookup) -> dict[str, Field]:
    """The physical columns that may be keys, by output name."""
    read = {f.name: f for f in node.read if f.type.name not in _NO_KEYS}
    columns = ((o.name, read.get(o.expression.name)) for o in node.outputs if isinstance(o.expression, exp.Column))
    return {name: column for name, column in columns if column is not None}


def _column_and_value(
    condition: exp.Expression, columns: dict[str, Field], outputs: set[str]
) -> tuple[Field, exp.Expression] | None:
    """The column and the value of ``column = value`` or ``value = column``, where the value does not read the table."""
    equality = condition.unnest()
    if not isinstance(equality, exp.EQ):
        return None
    left, right = equality.left.unnest(), equality.right.unnest()
    for column, value in ((left, right), (right, left)):
        if isinstance(column, exp.Column) and column.name in columns and not columns_of(value) & outputs:
            return columns[column.name], as_expression(value)
    return None


# --- types of keys --------------------------------------------------------------------------------------------

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
_NO_KEYS = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL", "BINARY"})


def _key(column: Field, value: exp.Expression, types: Types, at: exp.Expression, context: Context) -> tuple[Item, bool]:
    """The key, and whether the lookup by it decides the equality. SS206 where the types cannot be compared."""
    kind = types.of(value)
    if kind == column.type:
        return Item(column.name, value, column.type, types.nullable(value)), True
    if not _comparable(kind, column.type):
        message = f'column "{column.name}" of type {column.type} cannot be looked up by values of type {kind}'
        hint = f"Convert the value: CAST(… AS {column.type})."
        context.wrong("SS206", message, at, hint)
    narrows = kind.is_numeric and column.type.is_numeric and not _widens(kind, column.type)
    # A value that does not fit into the column's type equals none of its values.
    converted = exp.TryCast(this=value, to=column.type.to_sqlglot(), safe=True) if narrows else cast(value, column.type)
    nullable = narrows or types.nullable(value)
    return Item(column.name, converted, column.type, nullable), _decides(kind, column.type)


def _comparable(value: DataType, column: DataType) -> bool:
    """Whether values of a type can be keys of a column. Spark casts strings to numbers to compare them, so that
    '01' = 1: a number is no key of a STRING column."""
    if value.is_unknown or value.name == "VOID":
        return True
    if value.name == "STRING":
        return column.name != "BOOLEAN"
    return (value.is_numeric and column.is_numeric) or (value.name in _TIMES and column.name in _TIMES)


def _widens(value: DataType, column: DataType) -> bool:
    if value.name in _INTEGERS:
        wider = column.name in _INTEGERS and _INTEGERS.index(value.name) < _INTEGERS.index(column.name)
        return wider or column.name == "DOUBLE"
    return value.name == "FLOAT" and column.name == "DOUBLE"


def _decides(value: DataType, column: DataType) -> bool:
    """False where the cast rounds: 1.5 would find the rows of 1 or 2."""
    if value.is_numeric and column.is_numeric:
        return _widens(value, column) or (value.name in _INTEGERS and column.name in (*_INTEGERS, "DECIMAL"))
    return not (value.name in ("TIMESTAMP", "TIMESTAMP_NTZ") and column.name == "DATE")


# --- LATERAL TABLE(f(x)) of a coroutine -----------------------------------------------------------------------


def lookup_function_of(call: exp.Expr, context: Context) -> Function | None:
    """The user's coroutine function that ``call`` names; None for any other function."""
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    return function if function is not None and function.kind is FunctionKind.ASYNC else None


def lookup_call(
    source: exp.Expr, call: exp.Expr, scope: Scope, outer: bool, context: Context, hints: LookupHints
) -> Scope:
    """Binds a lateral join with a user's coroutine. Returns the scope in which each row is joined with the rows that
    the coroutine returns for it. The lookup is asynchronous even without LOOKUP ASYNC.
    """
    function = lookup_function_of(call, context)
    assert function is not None, "the caller has looked"
    check_arity(call, function, context)
    if not call.expressions:
        message = f'function "{function.name}" is looked up by its arguments, and has none'
        raise bind_error("SS252", message, call, "Call it with a column of the table before it.")
    chosen = chosen_options(source, hints, scope, context, asynchronous=True)
    keys = _argument_keys(call, function, scope, context)
    context.stop_if_wrong()
    read = tuple(Field(name, kind) for name, kind in _answer_columns(function))
    unique = UniqueNames(f.name for f in scope.node.schema)
    shown = _answer_names(source, call, function)
    items = tuple(
        Item(unique.unique(name.lstrip("_") or "col"), field_of(f.name), f.type)
        for name, f in zip(shown, read, strict=True)
    )
    node = Lookup(scope.node, function, keys, read, items, outer, options=chosen.options, failed=chosen.failed)
    node = with_time_to_live(check_changes(node, context, source), scope.tables, context)
    table = source.args["alias"].name if source.args.get("alias") else None
    visible = tuple(Visible(name, i.name, table or None) for name, i in zip(shown, items, strict=True))
    return scope.with_columns(node, visible)


def _argument_keys(call: exp.Expr, function: Function, scope: Scope, context: Context) -> tuple[Item, ...]:
    """The arguments, named by the parameters and cast to their declared types."""
    types = types_of(scope, context)
    names = UniqueNames()
    keys: list[Item] = []
    for index, argument in enumerate(call.expressions):
        name, kind = function.parameters[index] if index < len(function.parameters) else (f"argument_{index}", None)
        bound = bind(argument, scope, context, ClauseContext(f"an argument of {function.name}"))
        keys.append(_argument_key(names.unique(name), bound, kind, types))
    return tuple(keys)


def _argument_key(name: str, bound: exp.Expression, declared: DataType | None, types: Types) -> Item:
    kind = types.of(bound)
    if declared is None or declared.is_unknown or declared == kind:
        return Item(name, bound, kind, types.nullable(bound))
    return Item(name, cast(bound, declared), declared, types.nullable(bound))


def _answer_columns(function: Function) -> list[tuple[str, DataType]]:
    """The columns of the function's row; a bare value is one column with the function's name."""
    members = function.returns.args if function.returns.name == "STRUCT" else ()
    columns = [m for m in members if isinstance(m, tuple)]
    return columns or [(function.name, function.returns)]


def _answer_names(source: exp.Expr, call: exp.Expr, function: Function) -> list[str]:
    alias = source.args.get("alias")
    wanted = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    members = [name for name, _ in _answer_columns(function)]
    if wanted and len(wanted) != len(members):
        message = f"{function.name} gives {counted(len(members), 'column')}, not {len(wanted)}"
        raise bind_error("SS216", message, call)
    return wanted or members


# --- options of LOOKUP ASYNC ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenOptions:
    """The options of a lookup, and the side output for rows whose lookup fails, None without one."""

    options: LookupOptions
    failed: FailedRows | None = None


def chosen_options(
    right: exp.Expr, hints: LookupHints, scope: Scope, context: Context, *, asynchronous: bool = False
) -> ChosenOptions:
    """Returns the options for the lookup of ``right``: those of its LOOKUP ASYNC or LOOKUP hint, else the session's
    settings. BindError SS257 where both clause and hint are written.

    ``asynchronous``: without a clause or hint, the settings for asynchronous lookups apply.
    """
    clause, hint = table_clauses_of(right).lookup, hints.take(right)
    if clause is not None and hint is not None:
        message = f'LOOKUP ASYNC and a LOOKUP hint both say how "{right.alias_or_name}" is looked up'
        context.wrong("SS257", message, hint, "Keep one of the two.")
    if clause is not None:
        return bind_options(clause, scope, context)
    if hint is not None:
        return ChosenOptions(hinted_options(HintOptions(pairs_of(hint, context), hint, context)))
    if asynchronous:
        return ChosenOptions(context.settings.lookup)
    return ChosenOptions(replace(context.settings.lookup, asynchronous=False, order=Order.ORDERED))


def bind_options(clause: syntax.LookupAsync, scope: Scope, context: Context) -> ChosenOptions:
    """Binds the options of LOOKUP ASYNC; those that it does not set have the session's defaults. ``scope`` has the rows
    that may go to the table of failed rows. BindError SS212, SS255 for wrong values.
    """
    default = context.settings.lookup
    timeout = _clause_ms(clause.timeout, "TIMEOUT", context, 1)
    options = replace(
        default,
        asynchronous=True,
        order=Order[clause.order.name] if clause.order else default.order,
        capacity=default.capacity if clause.capacity is None else clause.capacity,
        timeout_ms=default.timeout_ms if timeout is None else timeout,
        on_timeout=OnTimeout[clause.on_timeout or default.on_timeout.name],
        on_error=OnError[clause.on_error or default.on_error.name],
        retries=tuple(_retry(r, context) for r in clause.retry if r.times),
        cache=_cache(clause.cache, context) if clause.cache else None,
        batch=clause.batch or 1,
        batch_within_ms=_clause_ms(clause.batch_within, "WITHIN", context) or 0,
    )
    if 0 < options.timeout_ms <= options.batch_within_ms:
        message = f"WITHIN {readable(options.batch_within_ms)} reaches TIMEOUT {readable(options.timeout_ms)}"
        context.wrong("SS255", message, clause.span, "A row waits for its batch within its TIMEOUT.")
    failed = failed_rows(clause.error_table, clause, scope, context) if clause.error_table is not None else None
    return ChosenOptions(options, failed)


def _clause_ms(interval: exp.Expression | None, what: str, context: Context, least: int = 0) -> int | None:
    """The milliseconds of a constant interval. SS212 where it is none, SS255 where it is less than ``least``."""
    if interval is None:
        return None
    at = span_of(interval)
    length_ms = interval_ms(interval, f"the interval of {what}", at)
    if length_ms < least:
        must = "be positive" if least else "not be negative"
        context.wrong("SS255", f"the interval of {what} must {must}, but is {readable(length_ms)}", at)
    return length_ms


def _retry(retry: syntax.Retry, context: Context) -> Retry:
    delay = _clause_ms(
        retry.delay, "EXPONENTIAL FROM" if retry.exponential else "FIXED DELAY", context, int(retry.exponential)
    )
    limit = _clause_ms(retry.limit, "TO", context)
    if limit is not None and delay is not None and limit < delay:
        message = f"EXPONENTIAL goes FROM {readable(delay)} TO {readable(limit)}, which is less"
        context.wrong("SS255", message, retry.span, "Give TO the longest delay.")
    return Retry(retry.times, delay or 0, retry.on != "ERROR", retry.on != "MISS", retry.exponential, limit)


def _cache(cache: syntax.Cache, context: Context) -> Cache:
    return Cache(
        cache.rows, _clause_ms(cache.ttl, "TTL", context, 1), _clause_ms(cache.negative_ttl, "NEGATIVE TTL", context)
    )


# --- ON ERROR TO t --------------------------------------------------------------------------------------------


def failed_rows(table: exp.Table, clause: LookupAsync, scope: Scope, context: Context) -> FailedRows:
    """Binds the side output for rows whose lookup fails. The rows have the columns of the left side and ``error``, the
    message; they fill the columns of ``table`` with the same names. BindError SS202, SS206, SS216 if the table does not
    fit.
    """
    table_of_failed = side_table(table, context)
    fields: dict[str, Field] = {}
    for visible in scope.columns:
        fields.setdefault(visible.name.casefold(), scope.fields[visible.field])
    fields.setdefault("error", Field(LOOKUP_ERROR, STRING, False))
    rows = SideRowFields("failed", "columns of the left side, and error, what went wrong", fields)
    return FailedRows(table_of_failed, side_values(table_of_failed, rows, clause.span, context))


# --- options of the table: Flink's partial cache and retries --------------------------------------------------

CACHE, PARTIAL = "lookup.cache", "PARTIAL"
ROWS, OLDER_ROWS = "lookup.partial-cache.max-rows", "lookup.cache.max-rows"
TTL, OLDER_TTL = "lookup.partial-cache.expire-after-write", "lookup.cache.ttl"
MISSES, OLDER_MISSES = "lookup.partial-cache.cache-missing-key", "lookup.cache.caching-missing-key"
RETRIES = "lookup.max-retries"
RETRY_DELAY_MS = 1000
"""Flink's delay between two attempts of a lookup in a database."""


_OPTION_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_OPTION_UNITS = {"": "ms", "milli": "ms", "millis": "ms", "secs": "s"}
"""Units of durations in options that INTERVAL does not have."""


def with_options_of(table: Table, chosen: ChosenOptions) -> ChosenOptions:
    """Completes the options of a lookup: the cache and the retries that neither clause nor hint sets are those that the
    table declares.
    """
    options = chosen.options
    if options.cache is None:
        options = replace(options, cache=cache_of(table))
    times = int(table.option(RETRIES) or 0)
    if times and not options.retries:
        options = replace(options, retries=(Retry(times, RETRY_DELAY_MS, on_miss=False),))
    return replace(chosen, options=options)


def cache_of(table: Table) -> Cache | None:
    """The cache of a table with 'lookup.cache' = 'PARTIAL'; None for other tables."""

    def given(key: str, older: str) -> str | None:
        return table.option(key) or table.option(older)

    rows, ttl = given(ROWS, OLDER_ROWS), given(TTL, OLDER_TTL)
    partial = (table.option(CACHE) or "").strip().upper() == PARTIAL or table.option(OLDER_ROWS) is not None
    if not partial or rows is None:
        return None
    misses = (given(MISSES, OLDER_MISSES) or "true").strip().lower() == "true"
    return Cache(int(rows), None if ttl is None else _option_ms(ttl), None if misses else 0)


def _option_ms(text: str) -> int:
    """The milliseconds of a duration; as in Flink, a number without a unit counts milliseconds."""
    number, unit = _OPTION_DURATION.findall(text.lower())[0]
    return text_ms(f"{number} {_OPTION_UNITS.get(unit, unit)}")
