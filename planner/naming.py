"""Names of fields: unique within a schema, without regard to case, as Spark compares them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.nodes import Field, Item, Node, Project

_PLAIN = re.compile(r"[A-Za-z]\w*")


class Names:
    """Gives every wish a name that no other field has: ``id``, ``id_1``, ``id_2``."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = {name.casefold() for name in used}

    def unique(self, wish: str) -> str:
        name, count = wish, 0
        while name.casefold() in self._used:
            count += 1
            name = f"{wish}_{count}"
        self._used.add(name.casefold())
        return name


def field_name(shown: str, expression: exp.Expr) -> str:
    """A readable wish for the field of an expression that users see under the name ``shown``."""
    if _PLAIN.fullmatch(shown):
        return shown
    inner = expression.this if isinstance(expression, exp.Filter) else expression
    return spark_name(inner) or "expr"


def shown_name(expression: exp.Expr) -> str:
    """The column name of an expression without alias: its last name part, or its text."""
    match expression:
        case exp.Column() | exp.Dot():
            return expression.name
        case exp.Paren():
            return shown_name(expression.this)
    return expression.sql(SqlStream, normalize_functions="lower", comments=False)


def field_of(name: str) -> exp.Column:
    """The reference to a field in expressions of the plan."""
    return exp.column(exp.to_identifier(name, quoted=True))


def passed(field: Field) -> Item:
    """The item of a projection that passes a field on as it is."""
    return Item(field.name, field_of(field.name), field.type, field.nullable, field.time)


def below_projections(node: Node, name: str) -> tuple[Node, str] | None:
    """The node at or below ``node`` that is no projection, and what it calls the field; None for a computed one."""
    while isinstance(node, Project):
        expression = next(item.expression for item in node.items if item.name == name)
        if not isinstance(expression, exp.Column):
            return None
        node, name = node.input, expression.name
    return node, name


def extended(node: Node, items: Iterable[Item]) -> Project:
    """All fields of a node and some more."""
    return Project(node, (*map(passed, node.schema), *items))
