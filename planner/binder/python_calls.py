"""USING f(args): Python classes of the user's that assign windows, fire them or evict rows."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.nodes import UserCall
from sqlstream.planner.binder.calls import check_arity
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.firing import PythonCall
from sqlstream.planner.suggestions import did_you_mean

_WANTED = {
    FunctionKind.ASSIGNER: "a window assigner: a class with a method assign",
    FunctionKind.TRIGGER: "a trigger: a class with a method on_element",
    FunctionKind.EVICTOR: "an evictor: a class with a method evict",
}


def python_call(call: UserCall, kind: FunctionKind, scope: Scope, context: Context) -> PythonCall:
    """The class that ``call`` names, of the right ``kind``, with constant arguments. BindError SS203, SS209."""
    function = context.catalog.function(call.name)
    if function is None:
        hint = did_you_mean(call.name, context.catalog.function_names(), "functions") or _create(call.name)
        raise bind_error("SS203", f'function "{call.name}" does not exist', call.span, hint)
    if function.kind is not kind:
        raise _wrong_kind(call, function.kind, kind)
    for argument in call.arguments:
        if argument.find(exp.Column):
            hint = "The class reads columns of the rows that it gets."
            raise bind_error("SS209", f'arguments of "{call.name}" must be constants', argument, hint)
    check_arity(exp.Anonymous(this=call.name, expressions=list(call.arguments)), function, context)
    return PythonCall(function.name, tuple(bind(a, scope, context, ClauseContext("USING")) for a in call.arguments))


def _create(name: str) -> str:
    return f"Write CREATE FUNCTION {name} AS 'package.module:Class' LANGUAGE PYTHON."


def _wrong_kind(call: UserCall, kind: FunctionKind, wanted: FunctionKind) -> BindError:
    message = f'"{call.name}" is a function of the kind {kind.value}, not {wanted.value}'
    return bind_error("SS209", message, call.span, f"USING takes {_WANTED[wanted]}.")
