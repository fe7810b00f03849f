"""Generators of rows: UNNEST, LATERAL VIEW, LATERAL TABLE and EXPLODE as Correlate; PIVOT and UNPIVOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.functions.result_types import common_type
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.spans import mark_as, span_of
from sqlstream.grammar.trees import ARG
from sqlstream.planner import unsupported
from sqlstream.planner.aggregate_calls import with_filter
from sqlstream.planner.binder.aggregation import bind_aggregation
from sqlstream.planner.binder.calls import aggregate_name, check_arity
from sqlstream.planner.binder.context import Context, bind_error, refuse_rest
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, type_in
from sqlstream.planner.binder.scope import Scope, Visible, names_under
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.expressions import as_expression, is_repeatable, rewritten, with_children_changed
from sqlstream.planner.fields import Field, UniqueNames, field_of, shown_name
from sqlstream.planner.functions.calls import hint_for, spark_name
from sqlstream.planner.nodes import Correlate, Filter
from sqlstream.planner.suggestions import counted
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.types import INT, STRING, UNKNOWN, DataType

GeneratedColumns = list[tuple[str, DataType]]


def table_call(source: exp.Expr, context: Context) -> exp.Expr:
    """The call of a function inside UNNEST or LATERAL TABLE, checked. BindError SS207 for wrong arguments."""
    if isinstance(source, exp.Unnest):
        refuse_rest(source, ("expressions", "alias", "offset", ARG), context)
        if len(source.expressions) != 1:
            raise bind_error("SS207", f"UNNEST takes 1 argument, not {len(source.expressions)}", source)
        return source
    refuse_rest(source, ("this", "view", "outer", "alias", ARG), context)
    if isinstance(source.this, exp.Query):
        raise unsupported.refusal("join", span_of(source), "The subquery of LATERAL is a join with each row.")
    return without_table(source.this)


def without_table(call: exp.Expr) -> exp.Expression:
    """The call inside TABLE(…): ``f(x)`` for ``TABLE(f(x))``. Any other call is unchanged."""
    if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
        return as_expression(call.expressions[0])
    return as_expression(call)


def correlate(
    source: exp.Expr, call: exp.Expr, scope: Scope, outer: bool, context: Context, on: exp.Expr | None = None
) -> Scope:
    """Binds a lateral join with a table function. Returns the scope in which each row is joined with those rows that
    ``call`` returns for it and for which ``on`` is true. Their columns have the alias of ``source``. ``outer`` also
    keeps rows for which there are none.

    UnsupportedError SS301 for a condition of an outer join that the operator cannot evaluate.
    """
    alias = source.args.get("alias")
    wanted = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    position = source.args.get("offset")
    if isinstance(position, exp.Identifier):
        # sqlglot moves the name of the ordinality from the list of columns to ``offset``.
        wanted.append(position.name)
    node, shown = generate(call, wanted, scope, outer, context)
    return with_rows(scope, node, shown, source.alias or None, on, context)


def with_rows(
    scope: Scope, node: Correlate, shown: Sequence[str], alias: str | None, on: exp.Expr | None, context: Context
) -> Scope:
    """The scope with the columns that ``node`` adds, called ``shown``, in those rows for which ``on`` is true.
    UnsupportedError SS301 as ``correlate``.
    """
    visible = tuple(Visible(n, f.name, alias) for n, f in zip(shown, node.outputs, strict=True))
    joined = scope.with_columns(node, visible)
    if on is None:
        return joined
    condition = bind_condition(on, joined, context, ClauseContext("ON"))
    context.stop_if_wrong()
    if not node.outer:
        return joined.over(Filter(node, condition))
    return joined.over(_with_condition(node, condition, on, context))


def is_generator(call: exp.Expr, context: Context) -> bool:
    """Whether a call is one of Spark's generators. Users' table functions are allowed in FROM only."""
    name = spark_name(call) if isinstance(call, exp.Func) else None
    if name is None or (isinstance(call, exp.Anonymous) and context.catalog.function(call.name) is not None):
        return False
    return kind_of(name) is BuiltinKind.GENERATOR


def gives_rows(call: exp.Expr, context: Context) -> bool:
    """Whether a call returns rows: a generator of Spark, or a user's table function."""
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    return is_generator(call, context) if function is None else function.kind is FunctionKind.TABLE


def generate(
    call: exp.Expr, wanted: list[str], scope: Scope, outer: bool, context: Context
) -> tuple[Correlate, list[str]]:
    """Binds a generator call such as EXPLODE. Returns a pair: the plan node that computes it for each row, and the
    names of its output columns. ``wanted`` are the names that the user gave, empty for the default names; ``outer``
    keeps rows without results. BindError SS216 for a wrong number of names.
    """
    if isinstance(call, exp.Unnest):
        bound, columns = _unnested(call, len(wanted), scope, context)
    else:
        function, bound = _function(call, scope, context)
        bound, outer = _without_outer(bound, outer)
        columns = _user_columns(function) if function else _builtin_columns(bound, len(wanted), scope, context)
    if wanted and len(wanted) != len(columns):
        message = f"{spark_name(call) or 'unnest'} gives {counted(len(columns), 'column')}, not {len(wanted)}"
        raise bind_error("SS216", message, call)
    shown = wanted or [name for name, _ in columns]
    unique = UniqueNames(f.name for f in scope.node.schema)
    fields = tuple(
        Field(unique.unique(n.lstrip("_") or "col"), kind) for n, (_, kind) in zip(shown, columns, strict=True)
    )
    return Correlate(scope.node, as_expression(bound), fields, outer), shown


def _function(call: exp.Expr, scope: Scope, context: Context) -> tuple[Function | None, exp.Expr]:
    """The call with its arguments bound, and the user's table function if it is one. SS203, SS209."""
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    if function is not None:
        _check_kind(call, function, context)
        check_arity(call, function, context)
    elif not is_generator(call, context):
        raise no_generator(call, context)
    copy = call.copy()
    for key, value in call.args.items():
        if isinstance(value, list):
            copy.set(key, [_argument(v, scope, context) for v in value])
        elif isinstance(value, exp.Expr):
            copy.set(key, _argument(value, scope, context))
    return function, copy


def _argument(value: exp.Expr, scope: Scope, context: Context) -> exp.Expr:
    return bind(value, scope, context, ClauseContext("a generator"))


def _check_kind(call: exp.Expr, function: Function, context: Context) -> None:
    if function.kind is FunctionKind.TABLE:
        return
    if function.kind is FunctionKind.ASYNC:
        raise unsupported.refusal("async function", span_of(call))
    if function.kind is FunctionKind.PROCESS:
        raise unsupported.refusal("process function", span_of(call))
    message = f'"{function.name}" is a function of the kind {function.kind.value}, not a table function'
    raise bind_error("SS209", message, call, "Call it in SELECT.")


def no_generator(call: exp.Expr, context: Context) -> BindError:
    """The mistake of calling a function for rows that does not exist (SS203), or that gives one value (SS209)."""
    name = spark_name(call) or call.sql(SqlStream)
    if kind_of(name) is None:
        hint = hint_for(name, context.catalog.function_names())
        return bind_error("SS203", f'function "{name}" does not exist', call, hint)
    hint = "Generators are EXPLODE, POSEXPLODE, INLINE, STACK, JSON_TUPLE and table functions in Python."
    return bind_error("SS209", f'function "{name}" gives one value, not rows', call, hint)


def _user_columns(function: Function) -> GeneratedColumns:
    members = function.returns.args if function.returns.name == "STRUCT" else ()
    columns = [(m[0], m[1]) for m in members if isinstance(m, tuple)]
    return columns or [(function.name, function.returns)]


def _without_outer(call: exp.Expr, outer: bool) -> tuple[exp.Expr, bool]:
    """EXPLODE_OUTER and similar generators as the plain one, which keeps rows without results."""
    name = spark_name(call) or ""
    if not name.endswith("_outer"):
        return call, outer
    return exp.func(name.removesuffix("_outer"), *call_arguments(call), dialect="spark"), True


def _unnested(unnest: exp.Unnest, wanted: int, scope: Scope, context: Context) -> tuple[exp.Expr, GeneratedColumns]:
    """UNNEST and its columns. As in Flink, structs become one column per field, and WITH ORDINALITY counts from 1."""
    argument = _argument(unnest.expressions[0], scope, context)
    ordinality = bool(unnest.args.get("offset"))
    kind = type_in(scope, context, argument)
    is_row = kind.name == "ARRAY" and isinstance(kind.args[0], DataType) and kind.args[0].name == "STRUCT"
    count = wanted - ordinality
    columns = _inlined(kind, count) if is_row else _exploded(kind, count, unnest)
    position: GeneratedColumns = [("ordinality", INT)] if ordinality else []
    return exp.Unnest(expressions=[argument], offset=ordinality or None), [*columns, *position]


def _builtin_columns(call: exp.Expr, wanted: int, scope: Scope, context: Context) -> GeneratedColumns:
    name, arguments = spark_name(call) or "", call_arguments(call)
    kind = type_in(scope, context, arguments[0]) if arguments else UNKNOWN
    match name:
        case "explode":
            return _exploded(kind, wanted, call)
        case "posexplode":
            return [("pos", INT), *_exploded(kind, wanted - 1, call)]
        case "inline":
            return _inlined(kind, wanted)
        case "stack":
            return _stacked(arguments, scope, context)
        case "json_tuple":
            return [(f"c{i}", STRING) for i in range(len(arguments) - 1)]
    return [(f"col{i}", UNKNOWN) for i in range(wanted)] if wanted > 1 else [("col", UNKNOWN)]


def _exploded(kind: DataType, wanted: int, call: exp.Expr) -> GeneratedColumns:
    match kind:
        case DataType("ARRAY", (DataType() as element,)):
            return [("col", element)]
        case DataType("MAP", (DataType() as key, DataType() as value)):
            return [("key", key), ("value", value)]
    if not kind.is_unknown:
        raise bind_error("SS206", f"rows can be made of an ARRAY or a MAP, not of {kind}", call)
    return [("key", UNKNOWN), ("value", UNKNOWN)] if wanted == 2 else [("col", UNKNOWN)]


def _inlined(kind: DataType, wanted: int) -> GeneratedColumns:
    element = kind.args[0] if kind.name == "ARRAY" else UNKNOWN
    members = element.args if isinstance(element, DataType) and element.name == "STRUCT" else ()
    columns = [(m[0], m[1]) for m in members if isinstance(m, tuple)]
    return columns or [(f"col{i + 1}", UNKNOWN) for i in range(max(1, wanted))]


def _stacked(arguments: list[exp.Expr], scope: Scope, context: Context) -> GeneratedColumns:
    rows = arguments[0] if arguments else None
    if not isinstance(rows, exp.Literal) or rows.is_string or int(rows.name) < 1:
        raise bind_error("SS207", "STACK needs a number of rows as its first argument", rows)
    values = arguments[1:]
    width = -(-len(values) // int(rows.name))
    return [(f"col{i}", type_in(scope, context, values[i])) for i in range(width)]


# --- conditions of outer joins --------------------------------------------------------------------------------
# A row none of whose generated rows fulfils the condition stays, with NULLs: so what is generated is filtered before it
# becomes rows.

_ELEMENT, _INDEX = "__element", "__index"
_IN_ROWS = (
    "ON of LEFT JOIN with UNNEST, EXPLODE, POSEXPLODE, INLINE and table functions in Python compares values without "
    "random functions and calls of Python."
)


def _with_condition(node: Correlate, condition: exp.Expression, on: exp.Expr, context: Context) -> Correlate:
    """The outer Correlate of those rows for which the condition holds."""
    made = _elements(node, context) if is_repeatable(condition) else None
    if made is None:
        raise unsupported.refusal("join", span_of(on), _IN_ROWS)
    holds = rewritten(condition, lambda c: made.values.get(c.name, c) if isinstance(c, exp.Column) else c)
    filtered = _lambda_call("FILTER", made.array, holds, _ELEMENT)
    explodes = made.whole and not isinstance(node.function, exp.Unnest)
    call = exp.Explode(this=filtered) if explodes else exp.Unnest(expressions=[filtered])
    return replace(node, function=as_expression(call))


@dataclass(frozen=True)
class _Elements:
    """An array with an element for each row that a generator makes, and the columns as ``values`` of an element, by
    their fields. ``whole``: the element is the only column, also where it is a STRUCT."""

    array: exp.Expr
    values: dict[str, exp.Expr]
    whole: bool


def _elements(node: Correlate, context: Context) -> _Elements | None:
    """None for generators of other values than arrays and maps."""
    call, types = node.function, Types(node.input.schema, context.catalog.function)
    name = "unnest" if isinstance(call, exp.Unnest) else spark_name(call)
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    if function is None and name not in ("unnest", "explode", "posexplode", "inline"):
        return None
    array = call if function is not None else (call_arguments(call) or call.expressions)[0]
    kind = DataType("ARRAY", (function.returns,)) if function is not None else types.of(array)
    if kind.name == "MAP":
        array = exp.Anonymous(this="MAP_ENTRIES", expressions=[array])
    numbered = name == "posexplode" or (isinstance(call, exp.Unnest) and bool(call.args.get("offset")))
    members = ["key", "value"] if kind.name == "MAP" else _members_of_element(kind) if name != "explode" else []
    names = [field.name for field in node.outputs]
    element = exp.to_identifier(_ELEMENT, quoted=True)
    if not numbered:
        values = [_member(element, m) for m in members] or [element]
        return _Elements(array, dict(zip(names, values, strict=True)), not members)
    of_element = [_member(element, m) for m in members] if name != "posexplode" or kind.name == "MAP" else []
    index = exp.to_identifier(_INDEX, quoted=True)
    first = 0 if name == "posexplode" else 1
    position = exp.Add(this=index, expression=exp.Literal.number(1)) if first else index
    columns = [position, *(of_element or [element])] if name == "posexplode" else [*(of_element or [element]), position]
    row = [part for n, value in zip(names, columns, strict=True) for part in (exp.Literal.string(n), value)]
    struct = exp.Anonymous(this="NAMED_STRUCT", expressions=row)
    rows = _lambda_call("TRANSFORM", array, struct, _ELEMENT, _INDEX)
    return _Elements(rows, {n: _member(element, n) for n in names}, whole=False)


def _members_of_element(kind: DataType) -> list[str]:
    element = kind.args[0] if kind.name == "ARRAY" and kind.args else UNKNOWN
    members = element.args if isinstance(element, DataType) and element.name == "STRUCT" else ()
    return [str(member[0]) for member in members if isinstance(member, tuple)]


def _member(element: exp.Identifier, name: str) -> exp.Expr:
    return exp.Dot(this=element.copy(), expression=exp.to_identifier(name, quoted=True))


def _lambda_call(function: str, array: exp.Expr, body: exp.Expr, *names: str) -> exp.Expr:
    parameters = [exp.to_identifier(name, quoted=True) for name in names]
    return exp.Anonymous(this=function, expressions=[array.copy(), exp.Lambda(this=body, expressions=parameters)])


# --- PIVOT and UNPIVOT ----------------------------------------------------------------------------------------

PIVOT, UNPIVOT = "SS673", "SS674"

_NULL_OF_NO_ROWS = frozenset({"sum", "avg", "mean", "min", "max", "first", "last", "any_value", "median", "stddev"})
_IN_TWO_STEPS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN"})
_PIVOT_CLAUSE = ClauseContext("PIVOT", aggregates=True)


def pivoted(pivots: Sequence[exp.Pivot], scope: Scope, context: Context) -> Scope:
    """Applies the PIVOT and UNPIVOT clauses of a source, in their order, and returns the scope of the resulting rows.

    PIVOT groups by all columns that it does not name. As in Spark, the result for a value without rows is NULL, also
    that of COUNT, if all results are numbers or BOOLEAN; otherwise Spark's COUNT of no rows is 0.
    """
    for pivot in pivots:
        consumed = ("expressions", "fields", "unpivot", "include_nulls", "alias", "columns", "pivot_column_naming")
        refuse_rest(pivot, consumed, context)
        scope = _unpivot(pivot, scope, context) if pivot.args.get("unpivot") else _pivot(pivot, scope, context)
        scope = _under_alias(pivot, scope)
    return scope


def _under_alias(pivot: exp.Pivot, scope: Scope) -> Scope:
    alias = pivot.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return scope
    names = names_under(alias, pivot.alias, [c.name for c in scope.columns])
    pairs = zip(names, scope.columns, strict=True)
    return replace(scope, columns=tuple(replace(c, name=n, table=pivot.alias or c.table) for n, c in pairs))


def _items(expression: exp.Expr) -> list[exp.Expr]:
    """The members of a list in parentheses, or the single expression without them."""
    plain = expression.unnest()
    return list(plain.expressions) if isinstance(plain, exp.Tuple) else [plain]


def _unaliased(value: exp.Expr) -> exp.Expr:
    return value.this if isinstance(value, exp.PivotAlias | exp.Alias) else value


# --- PIVOT as GROUP BY with an aggregate for each value -------------------------------------------------------


@dataclass(frozen=True)
class _Value:
    """A value in FOR … IN: the prefix of its columns' names, and the condition that a row has it."""

    name: str
    holds: exp.Expr


def _pivot(pivot: exp.Pivot, scope: Scope, context: Context) -> Scope:
    if len(pivot.args["fields"]) != 1:
        raise bind_error(PIVOT, "PIVOT has one FOR … IN (…)", pivot, "Write FOR (a, b) IN ((1, 'x'), …).")
    aggregates = pivot.expressions
    for aggregate in aggregates:
        if all(aggregate_name(node, context.catalog) is None for node in _unaliased(aggregate).walk()):
            message = f"PIVOT needs an aggregate, not {shown_name(_unaliased(aggregate))}"
            raise bind_error(PIVOT, message, aggregate, "Write PIVOT (SUM(x) FOR a IN ('x', 'y')).")
    keys = _keys(pivot, scope)
    in_two_steps = all(_is_in_two_steps(_unaliased(aggregate), scope, context) for aggregate in aggregates)
    results = [
        exp.alias_(
            _pivot_aggregate(_unaliased(aggregate), value.holds, in_two_steps, context),
            _result_name(value, aggregate, aggregates),
        )
        for value in _values(pivot.args["fields"][0], scope, context)
        for aggregate in aggregates
    ]
    written = [exp.column(exp.to_identifier(key.name, quoted=True), table=key.table) for key in keys]
    select = exp.Select(expressions=[*written, *results])
    if written:
        select.set("group", exp.Group(expressions=[column.copy() for column in written]))
    mark_as(select, pivot)
    relation = bind_aggregation(select, scope, context)
    tables = [*(key.table for key in keys), *[None] * len(results)]
    columns = zip(relation.names, relation.fields, tables, strict=True)
    return Scope(relation.node, tuple(Visible(name, field.name, table) for name, field, table in columns))


def _is_in_two_steps(aggregate: exp.Expr, scope: Scope, context: Context) -> bool:
    """Whether Spark first groups by the columns of FOR as well, and then spreads the results over columns."""
    kind = type_in(scope, context, bind(aggregate, scope, replace(context, problems={}), _PIVOT_CLAUSE))
    return kind.is_unknown or kind.name in _IN_TWO_STEPS


def _keys(pivot: exp.Pivot, scope: Scope) -> list[Visible]:
    """The columns that neither the aggregates nor FOR read."""
    parts = [*pivot.expressions, pivot.args["fields"][0].this]
    read = {c for part in parts for column in part.find_all(exp.Column) for c in _fields(column, scope)}
    return [column for column in scope.stars(None) if column.field not in read]


def _fields(column: exp.Column, scope: Scope) -> Iterator[str]:
    if not isinstance(column.this, exp.Star):
        yield from (read.name for read in scope.resolve(column).find_all(exp.Column))


def _values(given: exp.Expr, scope: Scope, context: Context) -> Iterator[_Value]:
    if not isinstance(given, exp.In):
        raise bind_error(PIVOT, "PIVOT needs FOR … IN (…)", given, "Write FOR a IN ('x', 'y').")
    columns = _items(given.this)
    kinds = [type_in(scope, context, bind(column, scope, context, _PIVOT_CLAUSE)) for column in columns]
    for value in given.expressions:
        members = _items(_unaliased(value))
        if len(members) != len(columns):
            message = f"a value of PIVOT has {counted(len(members), 'member')}, FOR {counted(len(columns), 'column')}"
            raise bind_error(PIVOT, message, value, "Write as many: FOR (a, b) IN ((1, 'x'), (2, 'y')).")
        for member in members:
            if member.find(exp.Column) is not None:
                raise bind_error(PIVOT, "a value of PIVOT is a constant", member, "Write a text in '…', or a number.")
        cast = (_cast_constant(member, kind, scope) for member, kind in zip(members, kinds, strict=True))
        equal: Iterator[exp.Expr] = (
            exp.NullSafeEQ(this=c.copy(), expression=m) for c, m in zip(columns, cast, strict=True)
        )
        yield _Value(_value_name(value, members), exp.paren(reduce(lambda a, b: exp.And(this=a, expression=b), equal)))


def _cast_constant(member: exp.Expr, kind: DataType, scope: Scope) -> exp.Expr:
    fits = kind.is_unknown or scope.types.of(member) == kind
    return member.copy() if fits else exp.cast(member.copy(), kind.to_sqlglot())


def _value_name(value: exp.Expr, members: Sequence[exp.Expr]) -> str:
    """The name of a value in FOR … IN: its alias, or its text."""
    if isinstance(value, exp.PivotAlias | exp.Alias):
        return str(value.args["alias"].name)
    texts = [_constant_text(member) for member in members]
    return texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"


def _constant_text(member: exp.Expr) -> str:
    match member:
        case exp.Literal():
            return member.name
        case exp.Null():
            return "null"
        case exp.Cast(this=exp.Literal() as text):
            return text.name
    return shown_name(member)


def _result_name(value: _Value, aggregate: exp.Expr, aggregates: Sequence[exp.Expr]) -> str:
    if len(aggregates) == 1:
        return value.name
    return f"{value.name}_{aggregate.alias or shown_name(aggregate)}"


def _pivot_aggregate(aggregate: exp.Expr, holds: exp.Expr, in_two_steps: bool, context: Context) -> exp.Expr:
    """The aggregate over the rows for which ``holds``, NULL without such rows where Spark aggregates in two steps."""
    result = _filtered(aggregate, holds, context)
    mark_as(result, aggregate)
    if not in_two_steps or aggregate_name(aggregate, context.catalog) in _NULL_OF_NO_ROWS:
        return result
    if isinstance(aggregate, exp.Count) and isinstance(aggregate.this, exp.Star):
        return exp.Nullif(this=result, expression=exp.Literal.number(0))
    rows = exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=holds.copy()))
    return exp.Case().when(exp.GT(this=rows, expression=exp.Literal.number(0)), result)


def _filtered(node: exp.Expr, holds: exp.Expr, context: Context) -> exp.Expr:
    """The expression with its aggregates filtered by ``holds``."""
    if aggregate_name(node, context.catalog) is None:
        return with_children_changed(node, lambda child: _filtered(child, holds, context))
    return with_filter(node, holds)


# --- UNPIVOT as a generator -----------------------------------------------------------------------------------


def _unpivot(pivot: exp.Pivot, scope: Scope, context: Context) -> Scope:
    """UNPIVOT as STACK of the names and values of the columns; like Spark, without rows whose values are all NULL."""
    (names,), (given,) = pivot.expressions, pivot.args["fields"]
    wanted = [given.this.name, *(name.name for name in _items(names))]
    groups = [_items(_unaliased(group)) for group in given.expressions]
    for written, group in zip(given.expressions, groups, strict=True):
        if len(group) != len(wanted) - 1:
            message = f"UNPIVOT names {counted(len(wanted) - 1, 'value')}, not {len(group)}"
            raise bind_error(UNPIVOT, message, written, "Write UNPIVOT ((v, w) FOR name IN ((a, b), (c, d))).")
    rows = zip(
        (_label(g) for g in given.expressions),
        *(_cast_to_one_type(of_name, scope, context) for of_name in zip(*groups, strict=True)),
        strict=True,
    )
    arguments = [exp.Literal.number(len(groups)), *(value for row in rows for value in row)]
    call = exp.Anonymous(this="STACK", expressions=arguments)
    mark_as(call, pivot)
    node, shown = generate(call, wanted, scope, False, context)
    grouped = {name for group in groups for column in group for name in _fields(_column(column), scope)}
    kept = [column for column in scope.stars(None) if column.field not in grouped]
    made = (Visible(name, field.name) for name, field in zip(shown, node.outputs, strict=True))
    result = Scope(node, (*kept, *made))
    if pivot.args.get("include_nulls"):
        return result
    return result.over(Filter(node, as_expression(_has_value(node.outputs[1:]))))


def _column(written: exp.Expr) -> exp.Column:
    if not isinstance(written, exp.Column):
        raise bind_error(UNPIVOT, "UNPIVOT takes columns", written, "Compute the value in a query in FROM.")
    return written


def _label(group: exp.Expr) -> exp.Literal:
    """The text that names the columns of a row: their alias, or their names joined."""
    if isinstance(group, exp.PivotAlias | exp.Alias):
        return exp.Literal.string(group.args["alias"].name)
    return exp.Literal.string("_".join(column.name for column in _items(group)))


def _cast_to_one_type(columns: Sequence[exp.Expr], scope: Scope, context: Context) -> list[exp.Expr]:
    """The columns that UNPIVOT makes one of, cast to a common type. SS674."""
    kinds = [
        type_in(scope, context, bind(_column(column), scope, context, ClauseContext("UNPIVOT"))) for column in columns
    ]
    context.stop_if_wrong()
    common = common_type(kinds)
    if any(kind.is_unknown for kind in kinds) or len(set(kinds)) == 1:
        return [column.copy() for column in columns]
    if common.is_unknown:
        message = f"UNPIVOT makes one column of values of the types {' and '.join(dict.fromkeys(map(str, kinds)))}"
        raise bind_error(UNPIVOT, message, columns[0], "Cast them to one type in a query in FROM.")
    return [exp.cast(column.copy(), common.to_sqlglot()) for column in columns]


def _has_value(fields: Sequence[Field]) -> exp.Expr:
    there: Iterator[exp.Expr] = (exp.Not(this=exp.Is(this=field_of(f.name), expression=exp.Null())) for f in fields)
    return reduce(lambda a, b: exp.Or(this=a, expression=b), there)
