"""Calls of functions: does the function exist, is it allowed here, does the number of arguments fit."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import CLAUSE_FUNCTIONS, FUNCTIONS, is_aggregate, kind_of
from sqlstream.grammar.json_calls import JsonCall
from sqlstream.planner.binder.context import Context
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.fields import Schema
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, hint_for, spark_name
from sqlstream.planner.type_inference import Types, call_arguments


def _of_kind(kind: BuiltinKind) -> frozenset[str]:
    return frozenset(name for name, function in CLAUSE_FUNCTIONS.items() if function.kind is kind)


TIME_MARKERS = _of_kind(BuiltinKind.TIME_ATTRIBUTE)
GROUP_WINDOWS = _of_kind(BuiltinKind.GROUP_WINDOW)
PANES = frozenset({"window_pane", "window_pane_index"})
WINDOW_PROPERTIES = _of_kind(BuiltinKind.WINDOW_PROPERTY) - PANES
SPARK_WINDOWS = frozenset({"window", "session_window"})
_GROUPING = frozenset({"grouping", "grouping_id"})

_ORDERED = frozenset({"mode", "percentile_cont", "percentile_disc"})

# Aggregates that need a number; Spark would cast a string silently.
_NUMERIC = frozenset(
    {
        "sum",
        "avg",
        "mean",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "var_pop",
        "var_samp",
        "variance",
        "median",
        "percentile",
    }
)


def aggregate_name(node: exp.Expr, catalog: Catalog) -> str | None:
    """The name of the aggregate that ``node`` calls, through FILTER and its kin; None for other expressions."""
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
    """Report what is wrong with a call; other expressions are fine."""
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
    """SS207 where a user's function is called with too few or too many arguments."""
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
    elif name in _GROUPING:
        hint = "Use it in the select list of a query with GROUPING SETS, CUBE or ROLLUP, outside of aggregates."
        context.wrong("SS221", f"{name.upper()} needs grouping sets", node, hint)
    else:
        _check_kind(node, name, context)


def _check_kind(node: exp.Expr, name: str, context: Context) -> None:
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
        case _ if name in _ORDERED and not _has_order(node, name):
            hint = f"Write {name.upper()}(…) WITHIN GROUP (ORDER BY a)."
            context.wrong("SS207", f'function "{name}" needs an order', node, hint)
        case _:
            _check_count(node, name, context)


def _has_order(node: exp.Expr, name: str) -> bool:
    return isinstance(node.parent, exp.WithinGroup) or (name == "mode" and bool(node.expressions))


def _check_count(node: exp.Expr, name: str, context: Context) -> None:
    """SS207 where a function of Spark's gets too few or too many arguments; other forms of calls have their own."""
    if isinstance(node, exp.Count) and node.this is None:
        context.wrong("SS207", 'function "count" takes at least 1 argument, not 0', node, "Write COUNT(*).")
    if not isinstance(node, exp.Anonymous | JsonCall):
        return
    distinct = [e for e in node.expressions if isinstance(e, exp.Distinct)]
    count = len(node.expressions) + sum(len(e.expressions) - 1 for e in distinct)
    function = FUNCTIONS[name]
    if not function.takes(count):
        context.wrong("SS207", f'function "{name}" takes {function.arity_in_words}, not {count}', node)


def check_aggregate_types(call: exp.Expr, schema: Schema, context: Context) -> None:
    """SS206 where a bound aggregate certainly cannot take its argument."""
    inner = call.this if isinstance(call, AGGREGATE_WRAPPERS) else call
    name = spark_name(inner)
    if name not in _NUMERIC:
        return
    arguments = call_arguments(inner)
    argument_type = Types(schema, context.catalog.function).of(arguments[0]) if arguments else None
    if (
        argument_type is None
        or argument_type.is_unknown
        or argument_type.is_numeric
        or argument_type.name in ("INTERVAL", "VOID")
    ):
        return
    hint = "Convert it, as in CAST(x AS DOUBLE)." if argument_type.name == "STRING" else None
    context.wrong("SS206", f"{name.upper()} needs a number, not {argument_type}", call, hint)
