"""Calls of functions: whether the function exists and is allowed, its arguments by position or name, and SQL bodies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import CLAUSE_FUNCTIONS, FUNCTIONS, is_aggregate, kind_of
from sqlstream.grammar import parse_query
from sqlstream.grammar.calls import JsonCall
from sqlstream.grammar.spans import mark, mark_as, span_of
from sqlstream.planner.aggregate_calls import call_parts
from sqlstream.planner.aggregate_order import is_orderable
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.expressions import as_expression, own_expressions, rewritten, with_children_changed
from sqlstream.planner.fields import Schema
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, hint_for, spark_name
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.planner.type_inference import Types, call_arguments
from sqlstream.types import DataType


def _of_kind(kind: BuiltinKind) -> frozenset[str]:
    return frozenset(name for name, function in CLAUSE_FUNCTIONS.items() if function.kind is kind)


TIME_MARKERS = _of_kind(BuiltinKind.TIME_ATTRIBUTE)
GROUP_WINDOWS = _of_kind(BuiltinKind.GROUP_WINDOW)
PANES = frozenset({"window_pane", "window_pane_index"})
WINDOW_PROPERTIES = _of_kind(BuiltinKind.WINDOW_PROPERTY) - PANES
SPARK_WINDOWS = frozenset({"window", "session_window"})
GROUPING_CALLS = frozenset({"grouping", "grouping_id"})
"""They say by which keys of GROUP BY a row is grouped."""

_ORDERED = frozenset({"mode", "percentile_cont", "percentile_disc"})

NO_ORDER = "SS641"
UNORDERED = ("ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL")
"""Types whose values have no order."""

# Aggregates that need a number; Spark would cast a string silently.
_NUMERIC = frozenset({
    "sum", "avg", "mean", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance", "median",
    "percentile",
})  # fmt: skip


def aggregate_name(node: exp.Expr, catalog: Catalog) -> str | None:
    """The name of the aggregate that ``node`` calls, also inside FILTER or WITHIN GROUP; None for other expressions."""
    if isinstance(node, AGGREGATE_WRAPPERS):
        return aggregate_name(node.this, catalog)
    if not isinstance(node, exp.Func):
        return None
    name = spark_name(node)
    if name is None:
        return None
    if isinstance(node, exp.Anonymous):
        user = catalog.function(node.name)
        if user is not None:
            return name if user.kind is FunctionKind.AGGREGATE else None
    return name if is_aggregate(name) else None


def check_call(node: exp.Expr, context: Context) -> None:
    """Reports mistakes of one call: an unknown function, one that is not allowed in this clause, or a wrong number of
    arguments.
    """
    if not isinstance(node, exp.Func):
        return
    name = spark_name(node)
    if name is None:
        return
    user = context.catalog.function(node.name) if isinstance(node, exp.Anonymous) else None
    if user is not None:
        _check_user_call(node, user, context)
    else:
        _check_builtin(node, name, context)


def _check_user_call(node: exp.Expr, function: Function, context: Context) -> None:
    match function.kind:
        case FunctionKind.SCALAR | FunctionKind.AGGREGATE:
            check_arity(node, function, context)
        case FunctionKind.TABLE:
            hint = f"Write FROM t, LATERAL TABLE({function.name}(…)) AS x."
            context.wrong("SS209", f'table function "{function.name}" is not allowed in an expression', node, hint)
        case FunctionKind.ASYNC:
            context.refuse("async function", node)
        case _:
            context.refuse("function kind", node, f'"{function.name}" is a function of the kind {function.kind.value}.')


def check_arity(node: exp.Expr, function: Function, context: Context) -> None:
    """Report SS207 where a user's function gets too few or too many arguments."""
    count, least, most = len(node.expressions), function.min_arguments, function.max_arguments
    if least <= count and (most is None or count <= most):
        return
    wanted = str(least) if most == least else f"{least} to {most}" if most is not None else f"at least {least}"
    plural = "" if wanted == "1" else "s"
    parameters = ", ".join(f"{n} {t}" for n, t in function.parameters)
    hint = f"It is declared as {function.name}({parameters})." if parameters else None
    context.wrong("SS207", f'function "{function.name}" takes {wanted} argument{plural}, not {count}', node, hint)


def _check_builtin(node: exp.Expr, name: str, context: Context) -> None:
    if name in TIME_MARKERS:
        hint = f"Declare a column of the table: pt AS {name.upper()}()."
        where = "CREATE TABLE or of a query of one table without aggregates" if name == "proctime" else "CREATE TABLE"
        context.wrong("SS209", f"{name.upper()}() is only allowed as a column of {where}", node, hint)
    elif name in WINDOW_PROPERTIES or name in GROUP_WINDOWS:
        window = name.partition("_")[0].upper()
        hint = f"Add {window}(…) to GROUP BY, or use window_start and window_end."
        context.wrong("SS221", f"{name.upper()} needs a GROUP BY with {window}(…)", node, hint)
    elif name in SPARK_WINDOWS or name == "window_time":
        hint = f"Add {name}(ts, …) to GROUP BY, or use TUMBLE, HOP or SESSION."
        context.wrong("SS221", f"{name} needs a GROUP BY with a window", node, hint)
    elif name in PANES:
        hint = "Call it in the select list or in HAVING of a query that groups by a window."
        context.wrong("SS221", f"{name} needs a GROUP BY with a window", node, hint)
    elif name == "current_watermark":
        context.refuse("watermark function", node)
    elif name in GROUPING_CALLS:
        hint = "Use it in the select list, HAVING, QUALIFY or ORDER BY of a query with GROUP BY, outside of aggregates."
        context.wrong("SS221", f"{name.upper()} needs GROUP BY", node, hint)
    else:
        _check_kind(node, name, context)


def _check_kind(node: exp.Expr, name: str, context: Context) -> None:
    has_order = isinstance(node.parent, exp.WithinGroup) or (name == "mode" and bool(node.expressions))
    match kind_of(name):
        case None:
            hint = hint_for(name, context.catalog.function_names())
            context.wrong("SS203", f'function "{name}" does not exist', node, hint)
        case BuiltinKind.WINDOW:
            context.wrong("SS209", f'window function "{name}" needs an OVER clause', node)
        case BuiltinKind.GENERATOR:
            hint = f"Write LATERAL VIEW {name.upper()}(…) t AS c, or use it alone as a column of SELECT."
            context.wrong("SS209", f'generator "{name}" is not allowed here', node, hint)
        case BuiltinKind.TABLE:
            context.wrong("SS209", f'table function "{name}" is not allowed in an expression', node)
        case _ if name in _ORDERED and not has_order:
            hint = f"Write {name.upper()}(…) WITHIN GROUP (ORDER BY a)."
            context.wrong("SS207", f'function "{name}" needs an order', node, hint)
        case _:
            _check_count(node, name, context)


def _check_count(node: exp.Expr, name: str, context: Context) -> None:
    """Report SS207 where a function of Spark gets too few or too many arguments. sqlglot checks the calls it parses."""
    if isinstance(node, exp.Count) and node.this is None:
        context.wrong("SS207", 'function "count" takes at least 1 argument, not 0', node, "Write COUNT(*).")
    if not isinstance(node, exp.Anonymous | JsonCall):
        return
    distinct = [e for e in node.expressions if isinstance(e, exp.Distinct)]
    count = len(node.expressions) + sum(len(e.expressions) - 1 for e in distinct)
    function = FUNCTIONS[name]
    if not function.takes(count):
        context.wrong("SS207", f'function "{name}" takes {function.arity_in_words}, not {count}', node)


_ORDERED_LISTS = frozenset({"collect_list", "array_agg", "listagg", "string_agg", "json_arrayagg"})


def check_aggregate_order(call: exp.Expr, context: Context) -> None:
    """Reports SS207 for an aggregate call with ORDER BY, among its arguments or in WITHIN GROUP, if the function
    supports none, or if DISTINCT values are ordered by another expression.
    """
    if call.find(exp.WithinGroup) is None:
        return
    parts = call_parts(as_expression(call))
    name = spark_name(parts.call) or parts.call.key
    if kind_of(name) is None and context.catalog.function(name) is None:
        return  # that is said of the function itself
    if aggregate_name(parts.call, context.catalog) is None:
        hint = "Only aggregates do, as ARRAY_AGG(x ORDER BY y)."
        context.wrong("SS207", f'function "{name}" takes no ORDER BY', call, hint)
        return
    is_of_user = isinstance(parts.call, exp.Anonymous) and context.catalog.function(parts.call.name) is not None
    if not is_of_user and not is_orderable(name):
        distinct = "ARRAY_AGG(DISTINCT x ORDER BY x) sorts the distinct values."
        hint = distinct if name == "collect_set" else "Leave it out: the result does not depend on the order of rows."
        context.wrong("SS207", f'aggregate "{name}" takes no ORDER BY', call, hint)
    elif parts.distinct and (is_of_user or name in _ORDERED_LISTS):
        values = parts.values[:1] if name in _ORDERED_LISTS else parts.values
        if not all(any(_is_same(as_expression(by.this), value) for value in values) for by in parts.order):
            hint = f"Write {name.upper()}(DISTINCT x) WITHIN GROUP (ORDER BY x), or leave DISTINCT out."
            message = f'aggregate "{name}" of DISTINCT values is ordered by these values only'
            context.wrong("SS207", message, parts.order[0], hint)


def _is_same(ordered: exp.Expr, value: exp.Expr) -> bool:
    """Whether two expressions have one value; a value may be ordered by what it is cast from."""
    value = value.this if isinstance(value, exp.Cast) and not isinstance(ordered, exp.Cast) else value
    if not (isinstance(ordered, exp.Column) and isinstance(value, exp.Column)):
        return ordered == value
    tables = {column.table.casefold() for column in (ordered, value) if column.table}
    return ordered.name.casefold() == value.name.casefold() and len(tables) < 2


def check_aggregate_types(call: exp.Expr, schema: Schema, context: Context) -> None:
    """Reports SS206 if a bound aggregate needs a number and its argument certainly is none, SS641 for an ORDER BY of a
    type that cannot be ordered.
    """
    types = Types(schema, context.catalog.function)
    if call.find(exp.WithinGroup) is not None:
        _check_order_types(call, types, context)
    inner = call.this if isinstance(call, AGGREGATE_WRAPPERS) else call
    name = spark_name(inner)
    if name not in _NUMERIC:
        return
    arguments = call_arguments(inner)
    argument_type = types.of(arguments[0]) if arguments else None
    if argument_type is None or argument_type.is_unknown or argument_type.is_numeric:
        return
    if argument_type.name in ("INTERVAL", "VOID"):
        return
    hint = "Convert it, as in CAST(x AS DOUBLE)." if argument_type.name == "STRING" else None
    context.wrong("SS206", f"{name.upper()} needs a number, not {argument_type}", call, hint)


def _check_order_types(call: exp.Expr, types: Types, context: Context) -> None:
    for ordered in call_parts(as_expression(call)).order:
        kind = types.of(ordered.this).name
        if kind in UNORDERED:
            hint = "Order by a number, a text or a time, such as an element of it."
            context.wrong(NO_ORDER, f"ORDER BY takes no values of type {kind}", ordered, hint)


# --- named arguments ------------------------------------------------------------------------------------------

WRONG_ARGUMENTS = "SS207"

Parameters = Mapping[str, exp.Expr | None]
"""The names of parameters with their defaults; None where an argument must be given."""

_BUILTIN_PARAMETERS: Mapping[str, Parameters] = {
    **{name: {"collection": None} for name in ("explode", "explode_outer", "posexplode", "posexplode_outer")},
    **{name: {"input": None} for name in ("inline", "inline_outer")},
    "mask": {
        "str": None,
        "upperChar": exp.Literal.string("X"),
        "lowerChar": exp.Literal.string("x"),
        "digitChar": exp.Literal.string("n"),
        "otherChar": exp.Null(),
    },
    "count_min_sketch": dict.fromkeys(("column", "epsilon", "confidence", "seed")),
}
"""The parameters of Spark's functions that take arguments by name. Users' functions have theirs in the catalog; named
arguments of any other call are refused when it is bound (SS338)."""


def with_positions(select: exp.Select, context: Context) -> exp.Select:
    """Returns the SELECT in which calls of Spark's functions have positional arguments instead of named ones (``name =>
    value``). BindError SS207 for wrong names.
    """
    if not any(isinstance(node, exp.Kwarg) for node in own_expressions(select)):
        return select
    positional = with_children_changed(select, lambda child: rewritten(child, lambda node: _positional(node, context)))
    assert isinstance(positional, exp.Select)
    return positional


def _positional(node: exp.Expr, context: Context) -> exp.Expr:
    if not isinstance(node, exp.Func) or not has_named_arguments(node):
        return node
    name = node.name if isinstance(node, exp.Anonymous) else (spark_name(node) or "")
    parameters = _BUILTIN_PARAMETERS.get(spark_name(node) or "")
    if parameters is None or context.catalog.function(name) is not None:
        return node
    ordered = ordered_arguments(node, name, parameters)
    arguments = [rewritten(argument, lambda inner: _positional(inner, context)) for argument in ordered]
    copy = node.copy()
    if isinstance(node, exp.Anonymous):
        copy.set("expressions", arguments)
    else:
        copy.set("this", arguments[0])
    mark_as(copy, node)
    return copy


def takes_named_arguments(call: exp.Expr) -> bool:
    """Whether a call of a built-in function may give its arguments by name."""
    return isinstance(call, exp.Func) and (spark_name(call) or "") in _BUILTIN_PARAMETERS


def has_named_arguments(call: exp.Func) -> bool:
    """Whether the call has an argument ``name => value``."""
    return any(isinstance(argument, exp.Kwarg) for argument in call_arguments(call))


def ordered_arguments(call: exp.Func, name: str, parameters: Parameters) -> list[exp.Expr]:
    """Returns the arguments of a call with named arguments, in the order of the function's parameters. Parameters
    without an argument get their defaults; those after the last argument given are left out. Mistakes raise BindError
    SS207.
    """
    values = _values_by_parameter(call, name, parameters)
    last = max(position for position, parameter in enumerate(parameters) if parameter in values)
    ordered: list[exp.Expr] = []
    for parameter in [*parameters][: last + 1]:
        value = values.get(parameter, parameters[parameter])
        if value is None:
            raise bind_error(WRONG_ARGUMENTS, f'function "{name}" needs the argument "{parameter}"', call)
        ordered.append(value.copy())
    return ordered


def _values_by_parameter(call: exp.Func, name: str, parameters: Parameters) -> dict[str, exp.Expr]:
    values: dict[str, exp.Expr] = {}
    named = False
    for position, argument in enumerate(call_arguments(call)):
        named = named or isinstance(argument, exp.Kwarg)
        if named and not isinstance(argument, exp.Kwarg):
            raise bind_error(WRONG_ARGUMENTS, "an argument by position cannot follow a named one", argument)
        if not named and position >= len(parameters):
            message = f'function "{name}" takes at most {counted(len(parameters), "argument")}'
            raise bind_error(WRONG_ARGUMENTS, message, argument)
        parameter = _parameter(argument, name, parameters) if named else [*parameters][position]
        if parameter in values:
            message = f'argument "{parameter}" of function "{name}" is given twice'
            raise bind_error(WRONG_ARGUMENTS, message, argument)
        values[parameter] = argument.expression if isinstance(argument, exp.Kwarg) else argument
    return values


def _parameter(argument: exp.Expr, name: str, parameters: Parameters) -> str:
    given = argument.this.name
    parameter = next((known for known in parameters if known.casefold() == given.casefold()), None)
    if parameter is None:
        hint = did_you_mean(given, parameters, "arguments")
        raise bind_error(WRONG_ARGUMENTS, f'function "{name}" has no argument "{given}"', argument, hint)
    return parameter


# --- functions with a body of SQL -----------------------------------------------------------------------------

_CUT_MARK = "cut"
"""Metadata key of calls whose result is already cut to the declared length."""


def expanded(call: exp.Anonymous, context: Context) -> exp.Expr | None:
    """Returns what replaces a call of a user's function: the call with its arguments in order, the SQL body of a SQL
    function, or the call inside a CAST to the declared length. None for calls that are not replaced.
    """
    function = context.catalog.function(call.name)
    if function is None:
        return None
    if has_named_arguments(call):
        return _with_ordered_arguments(call, function, context)
    if function.kind is FunctionKind.SQL:
        return _inlined_body(call, function, context)
    return _cut(call, function.declared) if function.declared is not None and _CUT_MARK not in call.meta else None


def _cut(call: exp.Anonymous, declared: str) -> exp.Expr:
    """The call, cut to the declared length of its result."""
    copy = call.copy()
    copy.meta[_CUT_MARK] = True
    return _cast_to(copy, declared)


def _inlined_body(call: exp.Anonymous, function: Function, context: Context) -> exp.Expr:
    """The SQL body with the arguments, cast to their declared types, in place of the parameters."""
    mistakes = len(context.problems)
    check_arity(call, function, context)
    if len(context.problems) > mistakes:
        return exp.Null()
    arguments = dict(zip((name.casefold() for name, _ in function.parameters), call.expressions, strict=False))
    types = {name.casefold(): kind for name, kind in function.parameters}
    defaults = {name.casefold(): text for name, text in function.defaults}

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.name.casefold()
        argument = arguments[name] if name in arguments else parsed(defaults[name])
        return _cast_copy(argument, types[name])

    body = exp.Paren(this=rewritten(parsed(function.target), value))
    result = _cast_copy(body, function.returns) if function.declared is None else _cast_to(body, function.declared)
    span = span_of(call)
    if span is not None:
        mark(as_expression(result), span.start, span.end)
    return result


def _cast_to(value: exp.Expr, declared: str) -> exp.Expr:
    return exp.cast(value, exp.DataType.build(declared, dialect="sqlstream"))


def _cast_copy(value: exp.Expr, kind: DataType) -> exp.Expr:
    return value.copy() if kind.is_unknown else exp.cast(value.copy(), kind.to_sqlglot())


@cache
def parsed(text: str) -> exp.Expr:
    """Parses the text of one expression. The result has no spans, because these would not be positions in the user's
    script.
    """
    expression: exp.Expr
    (expression,) = parse_query(f"SELECT {text}").expressions
    for node in expression.walk():
        node._meta = None
    return expression


def _with_ordered_arguments(call: exp.Anonymous, function: Function, context: Context) -> exp.Expr:
    """The call with its named arguments in the order of the parameters. SS207."""
    defaults = {name.casefold(): parsed(text) for name, text in function.defaults}
    parameters = {name: defaults.get(name.casefold()) for name, _ in function.parameters}
    try:
        copy = exp.Anonymous(this=call.this, expressions=ordered_arguments(call, function.name, parameters))
    except SqlStreamError as error:
        context.report(error)
        return exp.Null()
    mark_as(copy, call)
    return copy


def sql_functions_in(expression: exp.Expr, catalog: Catalog) -> set[str]:
    """The lower-case names of the SQL functions that an expression calls, directly or inside the bodies of others."""
    names: set[str] = set()
    waiting = [expression]
    while waiting:
        for call in waiting.pop().find_all(exp.Anonymous):
            function = catalog.function(call.name)
            if function is not None and function.kind is FunctionKind.SQL and function.name.casefold() not in names:
                names.add(function.name.casefold())
                waiting.append(parsed(function.target))
    return names
