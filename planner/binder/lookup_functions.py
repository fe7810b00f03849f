"""LATERAL TABLE(f(x)) of a coroutine: for each row the rows that it answers."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.changelog import check_changes
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, types_of
from sqlstream.planner.binder.lookup_hints import LookupHints
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.binder.state_ttl import with_time_to_live
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.naming import Names, field_of
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.suggestions import counted
from sqlstream.planner.type_inference import Types
from sqlstream.types import DataType


def lookup_function_of(call: exp.Expr, context: Context) -> Function | None:
    """The coroutine that ``call`` names; None for any other."""
    function = context.catalog.function(call.name) if isinstance(call, exp.Anonymous) else None
    return function if function is not None and function.kind is FunctionKind.ASYNC else None


def lookup_call(
    source: exp.Expr, call: exp.Expr, scope: Scope, outer: bool, context: Context, hints: LookupHints
) -> Scope:
    """The scope with the answers of the coroutine, which is asynchronous also without LOOKUP ASYNC."""
    function = lookup_function_of(call, context)
    assert function is not None, "the caller has looked"
    check_arity(call, function, context)
    if not call.expressions:
        message = f'function "{function.name}" is looked up by its arguments, and has none'
        raise bind_error("SS252", message, call, "Call it with a column of the table before it.")
    chosen = hints.options(source, scope, context, asynchronous=True)
    keys = _keys(call, function, scope, context)
    context.stop_if_wrong()
    read = tuple(Field(name, kind) for name, kind in _members(function))
    unique = Names(f.name for f in scope.node.schema)
    shown = _shown(source, call, function)
    items = tuple(
        Item(unique.unique(name.lstrip("_") or "col"), field_of(f.name), f.type)
        for name, f in zip(shown, read, strict=True)
    )
    node = Lookup(scope.node, function, keys, read, items, outer, options=chosen.options, failed=chosen.failed)
    node = with_time_to_live(check_changes(node, context, source), scope.tables, context)
    table = source.args["alias"].name if source.args.get("alias") else None
    visible = tuple(Visible(name, i.name, table or None) for name, i in zip(shown, items, strict=True))
    return scope.with_columns(node, visible)


def _keys(call: exp.Expr, function: Function, scope: Scope, context: Context) -> tuple[Item, ...]:
    """Named by the parameters and cast to their types where those are declared."""
    types = types_of(scope, context)
    names = Names()
    keys: list[Item] = []
    for index, argument in enumerate(call.expressions):
        name, kind = function.parameters[index] if index < len(function.parameters) else (f"argument_{index}", None)
        bound = bind(argument, scope, context, ClauseContext(f"an argument of {function.name}"))
        keys.append(_key(names.unique(name), bound, kind, types))
    return tuple(keys)


def _key(name: str, bound: exp.Expression, declared: DataType | None, types: Types) -> Item:
    kind = types.of(bound)
    if declared is None or declared.is_unknown or declared == kind:
        return Item(name, bound, kind, types.nullable(bound))
    return Item(name, cast(bound, declared), declared, types.nullable(bound))


def _members(function: Function) -> list[tuple[str, DataType]]:
    """The columns of the function's row; one of the function's name for a bare value."""
    members = function.returns.args if function.returns.name == "STRUCT" else ()
    columns = [m for m in members if isinstance(m, tuple)]
    return columns or [(function.name, function.returns)]


def _shown(source: exp.Expr, call: exp.Expr, function: Function) -> list[str]:
    alias = source.args.get("alias")
    wanted = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    members = [name for name, _ in _members(function)]
    if wanted and len(wanted) != len(members):
        message = f"{function.name} gives {counted(len(members), 'column')}, not {len(wanted)}"
        raise bind_error("SS216", message, call)
    return wanted or members
