"""Select lists over finished data: what streams execute of aliases and GROUPING, and Spark refuses, written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from sqlglot import exp

from sqlstream.planner.expressions import (
    as_expression,
    has_grouping_sets,
    is_repeatable,
    own_expressions,
    parenthesized,
    with_args,
    with_children_changed,
)
from sqlstream.planner.fields import shown_name
from sqlstream.planner.functions.calls import spark_name

_BITS = {"grouping": "TINYINT", "grouping_id": "BIGINT"}


def names_given(query: exp.Expr) -> Counter[str]:
    """How many column aliases of the query have each name, as a counter by lower-case name."""
    names = Counter(alias.alias.casefold() for alias in query.find_all(exp.Alias))
    names.update(column.name.casefold() for alias in query.find_all(exp.TableAlias) for column in alias.columns)
    return names


def with_aliases_read(
    select: exp.Select, is_column: Callable[[str], bool], given: Counter[str], aggregates: Callable[[exp.Expr], bool]
) -> exp.Select:
    """Returns the SELECT in which column aliases are replaced by their expressions where Spark does not resolve them:
    inside aggregates and OVER, and with GROUP BY in all columns.

    An alias for whose name ``is_column`` is true is not replaced, because the name may be a column of FROM. ``given``
    counts the aliases of each name in the whole query; ``aggregates`` is true for expressions with an aggregate.
    """
    grouped = select.args.get("group") is not None
    own = Counter(e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias))
    aliases: dict[str, exp.Expression] = {}
    columns: list[exp.Expr] = []

    def value(node: exp.Expr, inside: bool) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Column) and inside and not node.table:
            read = aliases.get(node.name.casefold())
            return parenthesized(as_expression(read.copy())) if read is not None else node
        inside = inside or isinstance(node, exp.Window) or aggregates(node)
        return with_children_changed(node, lambda child: value(child, inside))

    for column in select.expressions:
        changed = value(column, inside=grouped) if aliases else column
        if changed != column and not isinstance(column, exp.Alias):
            changed = exp.Alias(this=changed, alias=exp.to_identifier(shown_name(column), quoted=True))
        columns.append(changed if changed != column else column)
        name = column.alias.casefold() if isinstance(column, exp.Alias) else ""
        if name and own[name] == given[name] == 1 and not is_column(name):
            whole = as_expression(value(column.this, inside=True))
            if is_repeatable(whole) and whole.find(exp.Query) is None:
                aliases[name] = whole
    same = all(column is before for column, before in zip(columns, select.expressions, strict=True))
    return select if same else with_args(select, expressions=columns)


def without_grouping(select: exp.Select) -> exp.Select:
    """Returns the SELECT with the constant 0 in place of GROUPING and GROUPING_ID, if GROUP BY has no grouping sets.
    Spark refuses these calls there.
    """
    group = select.args.get("group")
    if group is None or has_grouping_sets(select) or not any(map(_is_bits, own_expressions(select))):
        return select
    keys = set(_keys(select, group))

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        if _is_bits(node) and all(argument in keys for argument in node.expressions):
            return exp.cast(exp.Literal.number(0), exp.DataType.build(_BITS[node.name.lower()]))
        return with_children_changed(node, value)

    clauses = {key: select.args[key] for key in ("having", "qualify", "order") if select.args.get(key) is not None}
    columns = [_named(value(column), column) for column in select.expressions]
    return with_args(select, expressions=columns, **{key: value(clause) for key, clause in clauses.items()})


def _is_bits(node: exp.Expr) -> bool:
    return isinstance(node, exp.Func) and spark_name(node) in _BITS


def _named(changed: exp.Expr, column: exp.Expr) -> exp.Expr:
    if changed == column:
        return column
    if isinstance(column, exp.Alias):
        return changed
    return exp.Alias(this=changed, alias=exp.to_identifier(shown_name(column), quoted=True))


def _keys(select: exp.Select, group: exp.Expr) -> Iterator[exp.Expr]:
    """The keys of GROUP BY, also those that ordinals, aliases and ALL stand for."""
    columns = list(select.expressions)
    if group.args.get("all"):
        yield from (column.unalias() for column in columns)
    for key in group.expressions:
        yield key
        if isinstance(key, exp.Literal) and key.name.isdigit() and 1 <= int(key.name) <= len(columns):
            yield columns[int(key.name) - 1].unalias()
        yield from (c.this for c in columns if isinstance(c, exp.Alias) and c.alias.casefold() == key.name.casefold())
