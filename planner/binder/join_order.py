"""The order of tables between commas: each next one is joined by an equality of WHERE where there is one, since rows
without a key all meet in one task."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from sqlglot import exp

from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.expressions import has_subquery

_LISTED = (exp.Table, exp.Subquery)
_SAYS_MORE = ("side", "method", "on", "using")


def in_order_of_keys(first: exp.Expr, steps: Sequence[exp.Expr], where: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The steps of FROM, where all are tables between commas; others stay as they are written."""
    if not steps or not all(map(_is_listed, steps)):
        return list(steps)
    places: dict[str, list[int]] = {}
    for i, step in enumerate(steps):
        places.setdefault(_name(step.this), []).append(i)
    joined_by: dict[str, list[int]] = {}
    for one, other in filter(None, map(_tables_of, where)):
        joined_by.setdefault(one, []).extend(places.get(other, ()))
        joined_by.setdefault(other, []).extend(places.get(one, ()))
    keyed = joined_by.pop(_name(first), [])
    heapify(keyed)
    waiting, chosen = deque(range(len(steps))), dict[int, exp.Expr]()
    while waiting or keyed:
        i = heappop(keyed) if keyed else waiting.popleft()
        if i in chosen:
            continue
        chosen[i] = steps[i]
        for joined in joined_by.pop(_name(steps[i].this), ()):
            heappush(keyed, joined)
    return list(chosen.values())


def in_order_of_text(scope: Scope, first: exp.Expr, steps: Sequence[exp.Expr]) -> Scope:
    """The scope whose columns are in the order in which FROM names their tables."""
    places = {name: i for i, name in enumerate([_name(first), *(_name(step.this) for step in steps)])}
    if not all(column.table is not None and column.table.casefold() in places for column in scope.columns):
        return scope
    ordered = sorted(scope.columns, key=lambda column: places[(column.table or "").casefold()])
    return replace(scope, columns=tuple(ordered))


def _is_listed(step: exp.Expr) -> bool:
    return (
        isinstance(step, exp.Join)
        and isinstance(step.this, _LISTED)
        and bool(step.this.alias_or_name)
        and step.text("kind").upper() in ("", "CROSS")
        and not any(step.args.get(key) for key in _SAYS_MORE)
    )


def _tables_of(condition: exp.Expr) -> tuple[str, str] | None:
    """The tables of both sides of an equality, each of one."""
    plain = condition.unnest()
    if not isinstance(plain, exp.EQ) or has_subquery(plain):
        return None
    sides = [{column.table.casefold() for column in side.find_all(exp.Column)} for side in (plain.left, plain.right)]
    if any(len(side) != 1 for side in sides) or "" in sides[0] | sides[1]:
        return None
    return sides[0].pop(), sides[1].pop()


def _name(source: exp.Expr) -> str:
    return source.alias_or_name.casefold()
