"""The newest row of each key over finished data: of equal event times, the row that was read last, as streams keep it.

Source of the semantics: Flink's ``RowTimeDeduplicateFunction``, which replaces a row by a later one of the same time.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.batch.scopes import parts_of
from sqlstream.planner.batch.spark_gaps import ScopesOfQuery
from sqlstream.planner.catalog import Catalog, Table, TimeDomain
from sqlstream.planner.expressions import conjuncts, rewritten, with_args
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.functions.spelling import called

_ONE: dict[type[exp.Expr], str] = {exp.EQ: "1", exp.LTE: "1", exp.LT: "2"}


@on_deep_stack
def with_newest_first(query: exp.Expr, catalog: Catalog, tables: dict[str, Table]) -> exp.Expr:
    """Returns the query with one more ORDER BY column in each ROW_NUMBER() that selects the newest row of each key. Of
    several newest rows with equal event times, it selects the one that was read last.

    ``tables`` maps the names of tables in the query to the tables.
    """
    scopes = ScopesOfQuery(catalog, tables)

    def ordered(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window) or not _is_newest(node, scopes):
            return node
        order = node.args["order"]
        read_last = exp.Ordered(this=called("MONOTONICALLY_INCREASING_ID"), desc=True, nulls_first=False)
        return with_args(node, order=with_args(order, expressions=[*order.expressions, read_last]))

    return rewritten(query, ordered)


def _is_newest(window: exp.Window, scopes: ScopesOfQuery) -> bool:
    """Whether OVER numbers the rows of a key from the newest event time down, and only the first is asked for.

    UNSAFE in aggregations, where Spark would look for the order of reading among their results.
    """
    order, select = window.args.get("order"), window.find_ancestor(exp.Query)
    if order is None or len(order.expressions) != 1 or spark_name(window.this) != "row_number":
        return False
    (by,) = order.expressions
    if not by.args.get("desc") or not isinstance(select, exp.Select) or select.find_ancestor(exp.Lateral) is not None:
        return False
    if not scopes.keeps_time_in(select):
        return False
    column = scopes.scope(select).column(by.this)
    return column is not None and column.time is TimeDomain.EVENT and _is_bounded(window, select)


def _is_bounded(window: exp.Window, select: exp.Select) -> bool:
    names = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias) and e.this is window}
    own = [c for part in parts_of(select, "qualify") for c in conjuncts(part)]
    if any(_is_one(condition, window, names) for condition in own):
        return True
    around = [c for reader in _readers(select) for part in parts_of(reader, "where") for c in conjuncts(part)]
    return any(_is_one(condition, None, names) for condition in around)


def _is_one(condition: exp.Expr, window: exp.Window | None, names: set[str]) -> bool:
    condition = condition.unnest()
    if type(condition) not in _ONE or not isinstance(condition, exp.Binary):
        return False
    left, right = condition.left.unnest(), condition.right.unnest()
    if isinstance(left, exp.Literal) and isinstance(condition, exp.EQ):
        left, right = right, left
    is_number = left is window or (isinstance(left, exp.Column) and left.name.casefold() in names)
    return is_number and isinstance(right, exp.Literal) and not right.is_string and right.name == _ONE[type(condition)]


def _readers(select: exp.Select) -> Iterator[exp.Select]:
    """The SELECT whose FROM the query is, by itself or by its name in WITH where nothing else reads it."""
    around = select.parent
    if isinstance(around, exp.CTE):
        whole = around.parent.parent if around.parent is not None else None
        name = around.alias.casefold()
        tables = [t for t in whole.find_all(exp.Table) if t.name.casefold() == name] if whole is not None else []
        source: exp.Expr | None = tables[0] if len(tables) == 1 else None
    else:
        source = around if isinstance(around, exp.Subquery) else None
    if source is not None and isinstance(source.parent, exp.From) and isinstance(source.parent.parent, exp.Select):
        yield source.parent.parent
