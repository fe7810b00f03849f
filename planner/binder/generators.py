"""Generators: UNNEST, LATERAL VIEW, LATERAL TABLE and EXPLODE in a select list become Correlate."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.functions.builtin import BuiltinKind
from sqlstream.functions.catalogue import kind_of
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import ARG
from sqlstream.planner import unsupported
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, type_in
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.fields import Field
from sqlstream.planner.functions.calls import hint_for, spark_name
from sqlstream.planner.naming import Names
from sqlstream.planner.nodes import Correlate
from sqlstream.planner.rewriting import node_of
from sqlstream.planner.suggestions import counted
from sqlstream.planner.type_inference import call_arguments
from sqlstream.types import INT, STRING, UNKNOWN, DataType

Columns = list[tuple[str, DataType]]


def table_call(source: exp.Expr, context: Context) -> exp.Expr:
    """The generator call that UNNEST or LATERAL TABLE stands for."""
    if isinstance(source, exp.Unnest):
        refuse_rest(source, ("expressions", "alias", "offset", ARG), context)
        if len(source.expressions) != 1:
            raise bind_error("SS207", f"UNNEST takes 1 argument, not {len(source.expressions)}", source)
        return source
    refuse_rest(source, ("this", "view", "outer", "alias", ARG), context)
    call = source.this
    if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and len(call.expressions) == 1:
        return node_of(call.expressions[0])
    if isinstance(call, exp.Query):
        raise unsupported.refusal("join", span_of(source), "The subquery of LATERAL is a join with each row.")
    return node_of(call)


def correlate(source: exp.Expr, call: exp.Expr, scope: Scope, outer: bool, context: Context) -> Scope:
    """The scope with the rows of ``call`` for each row, under the alias of ``source``."""
    alias = source.args.get("alias")
    wanted = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    position = source.args.get("offset")
    if isinstance(position, exp.Identifier):
        # sqlglot takes the name of the ordinality out of the list.
        wanted.append(position.name)
    node, shown = generate(call, wanted, scope, outer, context)
    visible = tuple(Visible(n, f.name, source.alias or None) for n, f in zip(shown, node.outputs, strict=True))
    return scope.with_columns(node, visible)


def is_generator(call: exp.Expr, context: Context) -> bool:
    """True for calls that give several rows: Spark's generators; users' table functions stand in FROM only."""
    name = spark_name(call) if isinstance(call, exp.Func) else None
    if name is None or (isinstance(call, exp.Anonymous) and context.catalog.function(call.name) is not None):
        return False
    return kind_of(name) is BuiltinKind.GENERATOR


def generate(
    call: exp.Expr, wanted: list[str], scope: Scope, outer: bool, context: Context
) -> tuple[Correlate, list[str]]:
    """The Correlate and the names under which its outputs are shown. SS216 for a wrong number of names."""
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
    unique = Names(f.name for f in scope.node.schema)
    fields = tuple(
        Field(unique.unique(n.lstrip("_") or "col"), kind) for n, (_, kind) in zip(shown, columns, strict=True)
    )
    return Correlate(scope.node, node_of(bound), fields, outer), shown


def _function(call: exp.Expr, scope: Scope, context: Context) -> tuple[Function | None, exp.Expr]:
    """The user's table function, if it is one, and the call with its arguments bound."""
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    if function is not None:
        _check_kind(call, function, context)
        check_arity(call, function, context)
    elif not is_generator(call, context):
        raise _no_generator(call, context)
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


def _no_generator(call: exp.Expr, context: Context) -> Exception:
    name = spark_name(call) or call.sql(SqlStream)
    if kind_of(name) is None:
        hint = hint_for(name, context.catalog.function_names())
        return bind_error("SS203", f'function "{name}" does not exist', call, hint)
    hint = "Generators are EXPLODE, POSEXPLODE, INLINE, STACK, JSON_TUPLE and table functions in Python."
    return bind_error("SS209", f'function "{name}" gives one value, not rows', call, hint)


def _user_columns(function: Function) -> Columns:
    members = function.returns.args if function.returns.name == "STRUCT" else ()
    columns = [(m[0], m[1]) for m in members if isinstance(m, tuple)]
    return columns or [(function.name, function.returns)]


def _without_outer(call: exp.Expr, outer: bool) -> tuple[exp.Expr, bool]:
    """EXPLODE_OUTER and its kin as the plain generator that keeps rows without any."""
    name = spark_name(call) or ""
    if not name.endswith("_outer"):
        return call, outer
    return exp.func(name.removesuffix("_outer"), *call_arguments(call), dialect="spark"), True


def _unnested(unnest: exp.Unnest, wanted: int, scope: Scope, context: Context) -> tuple[exp.Expr, Columns]:
    """As in Flink, rows of structs show their fields, and WITH ORDINALITY adds the position, counted from 1."""
    argument = _argument(unnest.expressions[0], scope, context)
    ordinality = bool(unnest.args.get("offset"))
    kind = type_in(scope, context, argument)
    is_row = kind.name == "ARRAY" and isinstance(kind.args[0], DataType) and kind.args[0].name == "STRUCT"
    count = wanted - ordinality
    columns = _inlined(kind, count) if is_row else _exploded(kind, count, unnest)
    position: Columns = [("ordinality", INT)] if ordinality else []
    return exp.Unnest(expressions=[argument], offset=ordinality or None), [*columns, *position]


def _builtin_columns(call: exp.Expr, wanted: int, scope: Scope, context: Context) -> Columns:
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


def _exploded(kind: DataType, wanted: int, call: exp.Expr) -> Columns:
    match kind:
        case DataType("ARRAY", (DataType() as element,)):
            return [("col", element)]
        case DataType("MAP", (DataType() as key, DataType() as value)):
            return [("key", key), ("value", value)]
    if not kind.is_unknown:
        raise bind_error("SS206", f"rows can be made of an ARRAY or a MAP, not of {kind}", call)
    return [("key", UNKNOWN), ("value", UNKNOWN)] if wanted == 2 else [("col", UNKNOWN)]


def _inlined(kind: DataType, wanted: int) -> Columns:
    element = kind.args[0] if kind.name == "ARRAY" else UNKNOWN
    members = element.args if isinstance(element, DataType) and element.name == "STRUCT" else ()
    columns = [(m[0], m[1]) for m in members if isinstance(m, tuple)]
    return columns or [(f"col{i + 1}", UNKNOWN) for i in range(max(1, wanted))]


def _stacked(arguments: list[exp.Expr], scope: Scope, context: Context) -> Columns:
    rows = arguments[0] if arguments else None
    if not isinstance(rows, exp.Literal) or rows.is_string or int(rows.name) < 1:
        raise bind_error("SS207", "STACK needs a number of rows as its first argument", rows)
    values = arguments[1:]
    width = -(-len(values) // int(rows.name))
    return [(f"col{i}", type_in(scope, context, values[i])) for i in range(width)]
