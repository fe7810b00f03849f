"""The select list: stars expanded, names found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context
from sqlstream.planner.binder.scope import Scope, Visible
from sqlstream.planner.fields import field_of, shown_name
from sqlstream.planner.suggestions import did_you_mean


@dataclass(frozen=True)
class Selected:
    """A column of the result: its shown name and its expression as written, without the alias.

    ``bound`` is set where the field is known already (stars, generators); ``aliases`` are the names that AS gives.
    """

    name: str
    expression: exp.Expr
    bound: exp.Expression | None = None
    aliases: tuple[str, ...] = ()


def expand(expressions: Sequence[exp.Expr], scope: Scope, context: Context) -> list[Selected]:
    """One entry per column of the result."""
    return [column for e in expressions for column in _columns(e, scope, context)]


def _columns(expression: exp.Expr, scope: Scope, context: Context) -> Iterator[Selected]:
    match expression:
        case exp.Star():
            yield from _star(expression, None, expression, scope, context)
        case exp.Column(this=exp.Star() as star):
            table = ".".join(p.name for p in expression.parts[:-1])
            yield from _star(star, table, expression, scope, context)
        case exp.Alias():
            yield Selected(expression.alias, expression.this, None, (expression.alias,))
        case exp.Aliases():
            names = tuple(a.name for a in expression.aliases)
            yield Selected(names[0] if names else "expr", expression.this, None, names)
        case _:
            yield Selected(shown_name(expression), expression)


def _star(star: exp.Star, table: str | None, at: exp.Expr, scope: Scope, context: Context) -> Iterator[Selected]:
    """All columns of ``table`` or of the whole scope, but for those of EXCEPT."""
    refuse_rest(star, ("except_",), context)
    visible = scope.stars(table)
    if table is not None and not visible and isinstance(at, exp.Column):
        members = _members(at, scope)
        if members:
            yield from members
            return
    if table is not None and not visible:
        hint = did_you_mean(table, scope.tables, "tables of this query")
        context.wrong("SS202", f'table "{table}" is not in FROM', at, hint)
    excluded = _excluded(star, visible, context)
    for column in visible:
        if column.name.casefold() not in excluded:
            yield Selected(column.name, exp.column(column.name, table=column.table), field_of(column.field))


def _members(at: exp.Column, scope: Scope) -> list[Selected]:
    """The fields of a struct that is a column of FROM: ``r.*``."""
    names = [p.name for p in at.parts[:-1]]
    try:
        kind = scope.types.of(scope.resolve(_named(names)))
    except SqlStreamError:
        return []
    fields = kind.fields() if kind.name == "STRUCT" else []
    return [Selected(name, _named([*names, name])) for name, _ in fields]


def _named(parts: Sequence[str]) -> exp.Column:
    return exp.column(*(exp.to_identifier(part, quoted=True) for part in reversed(parts)))


def _excluded(star: exp.Star, visible: list[Visible], context: Context) -> set[str]:
    names = [c.name for c in visible]
    excluded = star.args.get("except_") or []
    for name in excluded:
        if name.name.casefold() not in {n.casefold() for n in names}:
            hint = did_you_mean(name.name, names, "columns")
            context.wrong("SS201", f'column "{name.name}" of EXCEPT does not exist', name, hint)
    return {name.name.casefold() for name in excluded}
