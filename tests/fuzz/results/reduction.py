"""The smallest case that still shows a difference: first fewer changes, then a smaller query, then fewer changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query, to_sql
from tests.fuzz.results.ways import Case

Shows = Callable[[Case], bool]


def reduced(case: Case, shows: Shows, seconds: float = 60) -> Case:
    """As small as it gets in the time; ``case`` itself where nothing can be left out."""
    end = time.monotonic() + seconds

    def tried(candidate: Case) -> bool:
        return time.monotonic() < end and shows(candidate)

    before: Case | None = None
    while before != case and time.monotonic() < end:
        before = case
        case = _smallest(case, _with_fewer_changes, tried)
        case = _smallest(case, _with_smaller_query, tried)
    return case


def _smallest(case: Case, smaller: Callable[[Case], Iterator[Case]], shows: Shows) -> Case:
    """Takes each smaller case that shows the difference, and begins anew with it."""
    actual: Case | None = case
    while actual is not None:
        case, actual = actual, next((candidate for candidate in smaller(actual) if shows(candidate)), None)
    return case


def _with_fewer_changes(case: Case) -> Iterator[Case]:
    acts, size = case.past.acts, len(case.past.acts)
    together = (2 * size + 1,)
    if case.past.cuts != together and size:
        yield replace(case, past=replace(case.past, cuts=together))
    while size:
        for start in range(0, len(acts), size):
            yield replace(case, past=replace(case.past, acts=acts[:start] + acts[start + size :]))
        size //= 2


# --- queries --------------------------------------------------------------------------------------------------


def _with_smaller_query(case: Case) -> Iterator[Case]:
    seen = {case.text}
    for tree in smaller_trees(parse_query(case.text)):
        try:
            text = to_sql(cast("exp.Expression", tree))
            parse_query(text)
        except (SqlStreamError, AssertionError, TypeError, ValueError, AttributeError, KeyError):
            continue  # a tree that is none of the language
        if text not in seen and len(text) <= len(case.text) and not differs_by_design(tree):
            seen.add(text)
            yield replace(case, text=text)


def smaller_trees(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The tree without one of its parts, or with a part of it in its place; large parts first."""
    for number, node in enumerate(tree.bfs()):
        if node.find_ancestor(exp.Order) or isinstance(node, exp.Order):
            continue  # rows are chosen by orders without ties
        for change in _changes(node):
            copied = tree.copy()
            actual = change(next(n for i, n in enumerate(copied.bfs()) if i == number))
            yield copied if actual is None else actual


Change = Callable[[exp.Expr], "exp.Expr | None"]
"""Changes a node in its place; returns the tree where that is another one."""


def _changes(node: exp.Expr) -> Iterator[Change]:
    if isinstance(node, exp.Query):
        yield from (_to_inner(i) for i in range(len(_inner_queries(node))))
        if node.args.get("with_") is not None:
            yield _inlined
    if _is_plain(node):
        yield _merged
    for name, value in node.args.items():
        if name in ("order", "alias", "this") and not isinstance(node, exp.Window):
            continue
        if isinstance(value, list):
            yield from (_without_item(name, i) for i in range(len(value)))
        elif value is not None and not node.arg_types.get(name, False):
            yield _without(name)
    if isinstance(node, exp.Select) and node.args.get("limit") is not None:
        yield _unlimited
    if isinstance(node, exp.Condition) and not isinstance(node, exp.Column | exp.Literal | exp.Query):
        yield from (_to_child(i) for i in range(len(_operands(node))))


def _inner_queries(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.SetOperation):
        return [node.this, node.expression]
    if isinstance(node, exp.Subquery):
        return []
    sources = [node.args.get("from_"), *node.args.get("joins", [])]
    return [s.this.this for s in sources if s and isinstance(s.this, exp.Subquery)]


def _to_inner(number: int) -> Change:
    def change(node: exp.Expr) -> exp.Expr | None:
        inner = _inner_queries(node)[number].copy()
        if node.parent is None:
            if node.args.get("with_") is not None and inner.args.get("with_") is None:
                inner.set("with_", node.args["with_"].copy())
            return inner
        node.replace(inner)
        return None

    return change


def _inlined(node: exp.Expr) -> None:
    """Each name of WITH as its query."""
    named = {cte.alias: cte.this for cte in node.args["with_"].expressions}
    node.set("with_", None)
    for table in [*node.find_all(exp.Table)]:
        if table.name in named:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias or table.name))
            table.replace(exp.Subquery(this=named[table.name].copy(), alias=alias))


def _is_plain(node: exp.Expr) -> bool:
    """In FROM, columns of a table under other names."""
    if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Select) or not node.alias:
        return False
    select = node.this
    others = [name for name, value in select.args.items() if value and name not in ("expressions", "from_", "kind")]
    source = select.args.get("from_")
    columns = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    plain = all(isinstance(column, exp.Column) for column in columns)
    return not others and plain and source is not None and isinstance(source.this, exp.Table)


def _merged(node: exp.Expr) -> None:
    select = cast("exp.Select", cast("exp.Subquery", node).this)
    own = {item.alias_or_name: (item.this if isinstance(item, exp.Alias) else item).name for item in select.expressions}
    alias = node.alias
    table = select.args["from_"].this.copy()
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    for column in [*node.root().find_all(exp.Column)]:
        if column.table == alias and column.name in own:
            renamed = exp.column(own[column.name], table=alias)
            is_item = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
            column.replace(exp.alias_(renamed, column.name) if is_item else renamed)
    node.replace(table)


def _without(name: str) -> Change:
    return lambda node: node.set(name, None)


def _without_item(name: str, number: int) -> Change:
    return lambda node: node.set(name, [item for i, item in enumerate(node.args[name]) if i != number])


def _unlimited(node: exp.Expr) -> None:
    for name in ("limit", "offset", "order"):
        node.set(name, None)


def _to_child(number: int) -> Change:
    def change(node: exp.Expr) -> exp.Expr | None:
        node.replace(_operands(node)[number])
        return None

    return change


def _operands(node: exp.Expr) -> list[exp.Expr]:
    children: list[exp.Expr] = [*node.iter_expressions()]
    return [child for child in children if isinstance(child, exp.Condition)]


def differs_by_design(tree: exp.Expr) -> bool:
    """Whether a query has a group without keys that a stream does not have before a row comes, or a call with OVER
    that depends on an order which the query does not say.
    """
    groups = any(_is_group_of_all(select) and not _is_scalar(select) for select in tree.find_all(exp.Select))
    return groups or any(map(_counts_ties, tree.find_all(exp.Window)))


_OF_PLACES = frozenset({"lag", "lead", "first_value", "last_value", "nth_value", "row_number", "ntile"})


def _counts_ties(window: exp.Window) -> bool:
    """Whether a call reads or counts rows at places, and its order has ties of rows that the SELECT shows differently.
    Rows that come anew after a change have another place among their ties than they had.
    """
    call, select = window.this, window.find_ancestor(exp.Select)
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    frame = window.args.get("spec")
    counts = name.lower() in _OF_PLACES or (frame is not None and frame.args.get("kind") == "ROWS")
    if not counts or not isinstance(select, exp.Select):
        return False
    order = window.args.get("order")
    keys = [*window.args.get("partition_by", []), *(by.this for by in (order.expressions if order else ()))]
    shown = [*select.expressions, *([select.args["qualify"]] if select.args.get("qualify") else [])]
    return not {column for part in shown for column in part.find_all(exp.Column)} <= {*keys}


def _is_group_of_all(select: exp.Select) -> bool:
    group, having = select.args.get("group"), select.args.get("having")
    if having is not None and "COUNT(*) > 0" in to_sql(having):
        return False
    if group is not None and not group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
        return not group.expressions
    parts = [*select.expressions, *([having] if having else [])]
    calls = (call for part in parts for call in part.find_all(exp.AggFunc, exp.Anonymous))
    return any(call.find_ancestor(exp.Select) is select and not call.find_ancestor(exp.Window) for call in calls)


def _is_scalar(select: exp.Select) -> bool:
    return isinstance(select.parent, exp.Subquery) and not isinstance(select.parent.parent, exp.From | exp.Join)
