"""``'sqlstream.functions.on-error'``: which rows it is about, and what it cannot be about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.spans import span_of
from sqlstream.planner.bad_rows import FAIL, BadAction, OnError
from sqlstream.planner.binder.dead_letters import dead_letter_table
from sqlstream.planner.binder.settings import EmitSettings
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.fields import Item
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Correlate, Filter, Project
from sqlstream.planner.operators.process_table import ProcessTable

NOT_TOLERANT = "SS244"
SETTING = "sqlstream.functions.on-error"

_REACHED: dict[FunctionKind, tuple[type[Node], ...]] = {
    FunctionKind.SCALAR: (Project, Filter, Correlate),
    FunctionKind.TABLE: (Correlate,),
}
"""Where calls of a function may fail for a row; process functions have a node of their own."""


def functions_on_error(plan: Node, settings: EmitSettings, catalog: Catalog) -> OnError:
    """What happens to rows for which a function of the plan raises an exception; FAIL where it calls none.

    BindError SS240, SS241 for the table of dead letters, SS244 for functions that the setting does not reach.
    """
    action, name = settings.functions
    if action is BadAction.FAIL:
        return FAIL
    calls = [user_call for node in plan.walk() for user_call in _calls(node, catalog)]
    for node, function, call in calls:
        if not isinstance(node, _REACHED.get(function.kind, ())):
            _refuse(function.name, call)
    if not calls and not any(isinstance(node, ProcessTable) for node in plan.walk()):
        return FAIL
    return OnError(action, None if name is None else dead_letter_table(name, "Python functions", catalog))


def _refuse(name: str, call: exp.Expr) -> None:
    message = f'setting "{SETTING}" does not reach function "{name}" here'
    hint = (
        "It reaches scalar functions in SELECT and WHERE: call them in a subquery; aggregates need the setting 'fail'."
    )
    raise BindError(NOT_TOLERANT, message, span_of(call), hint=hint)


def _calls(node: Node, catalog: Catalog) -> Iterator[tuple[Node, Function, exp.Expr]]:
    for field in fields(node):
        for expression in _expressions(getattr(node, field.name)):
            for call in expression.find_all(exp.Anonymous):
                function = catalog.function(call.name)
                if function is not None:
                    yield node, function, call


def _expressions(value: object) -> Iterator[exp.Expr]:
    match value:
        case exp.Expr():
            yield value
        case Item():
            yield value.expression
        case tuple():
            for member in value:
                yield from _expressions(member)
