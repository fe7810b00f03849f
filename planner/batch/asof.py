"""ASOF joins over finished data, as lateral subqueries of the nearest row of the right side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.planner.expressions import conjuncts

_NEWEST_FIRST = {exp.GTE: True, exp.GT: True, exp.LTE: False, exp.LT: False}


@dataclass(frozen=True)
class Nearest:
    """What an ASOF JOIN compares: ``value`` is the right side's value; ``descending`` is True if the greatest value
    that matches is the nearest.
    """

    value: exp.Expr
    descending: bool


def is_asof(join: exp.Expr) -> bool:
    """Whether an expression is an ASOF JOIN."""
    return isinstance(join, exp.Join) and join.text("method").upper() == "ASOF"


def nearest(join: exp.Join) -> Nearest | None:
    """Returns what an ASOF JOIN compares. None for USING, and where the text alone does not show to which side a value
    belongs.
    """
    if join.args.get("using") or not join.this.alias_or_name:
        return None
    written = join.args.get("match_condition") or join.args.get("on")
    comparisons = [one for one in map(_compared, conjuncts(written)) if one is not None] if written is not None else []
    right = join.this.alias_or_name.casefold()
    named = [nearest for one in comparisons if (nearest := _of_right(one, right)) is not None]
    return named[0] if len(named) == len(comparisons) == 1 else None


def as_lateral(join: exp.Join, right: exp.Expr, conditions: Sequence[exp.Expr], key: Sequence[str]) -> exp.Join:
    """Rewrites an ASOF JOIN as a LATERAL join with a query: the rows of ``right`` that fulfil the ``conditions``,
    nearest value first, LIMIT 1. Of rows with equal values the one with the least ``key`` (columns of ``right``) is
    first.
    """
    wanted = nearest(join)
    assert wanted is not None, "the join is no batch"
    alias = exp.to_identifier(join.this.alias_or_name, quoted=True)
    of_key = (exp.column(exp.to_identifier(name, quoted=True), table=alias.copy()) for name in key)
    ordered = [exp.Ordered(this=wanted.value.copy(), desc=wanted.descending or None, nulls_first=not wanted.descending)]
    ordered += [exp.Ordered(this=column, nulls_first=True) for column in of_key]
    query = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=right),
        where=exp.Where(this=exp.and_(*conditions, copy=True)),
        order=exp.Order(expressions=ordered),
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )
    lateral = exp.Lateral(this=exp.Subquery(this=query), alias=exp.TableAlias(this=alias))
    return exp.Join(this=lateral, side=join.args.get("side"), on=exp.true())


def _compared(condition: exp.Expr) -> exp.Binary | None:
    plain = condition.unnest()
    return plain if isinstance(plain, exp.Binary) and type(plain) in _NEWEST_FIRST else None


def _of_right(condition: exp.Binary, right: str) -> Nearest | None:
    one, other = (_reads(side, right) for side in (condition.left, condition.right))
    descending = _NEWEST_FIRST[type(condition)]
    if (one, other) == (False, True):
        return Nearest(condition.right, descending)
    return Nearest(condition.left, not descending) if (one, other) == (True, False) else None


def _reads(value: exp.Expr, right: str) -> bool | None:
    """Whether a value reads the right side alone, or the left one; None where that is not known."""
    tables = {column.parts[0].name.casefold() if len(column.parts) > 1 else "" for column in value.find_all(exp.Column)}
    if not tables or "" in tables or (right in tables and len(tables) > 1):
        return None
    return right in tables
