"""Names of fields: unique within a schema, without regard to case, as Spark compares them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.grammar.dialect import SqlStream
from sqlstream.planner.functions.calls import spark_name

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
