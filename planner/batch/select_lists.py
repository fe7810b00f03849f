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


_QUALIFIED, _ORDER = "__qualified", "__order_"


def qualified_above_groups(
    select: exp.Select, is_column: Callable[[str], bool], aggregates: Callable[[exp.Expr], bool]
) -> exp.Select:
    """Returns a SELECT over the given one, which has GROUP BY, with QUALIFY as WHERE. Of groups, Spark reads in QUALIFY
    only the columns of the select list, and refuses aggregates and keys that are no such columns.

    ``select`` is in Spark's words. ``is_column`` is true for the names of columns of FROM, ``aggregates`` for aggregate
    functions. A SELECT without such a QUALIFY is returned unchanged, and so is one whose columns lack names.
    """
    qualify, columns, group = select.args.get("qualify"), select.expressions, select.args.get("group")
    names = [column.alias_or_name for column in columns]
    if qualify is None or group is None or not all(names) or len({*map(str.casefold, names)}) < len(names):
        return select
    known = {name.casefold() for name in names}
    read = [column for column in qualify.find_all(exp.Column) if column.table or column.name.casefold() not in known]
    if qualify.find(exp.Query) is not None or not (read or any(map(aggregates, qualify.walk()))):
        return select
    expressions = {c.alias.casefold(): c.this for c in columns if isinstance(c, exp.Alias)}

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and not is_column(node.name.casefold()):
            alias = expressions.get(node.name.casefold())
            return node if alias is None else parenthesized(as_expression(alias.copy()))
        return with_children_changed(node, value)

    order = select.args.get("order")
    keys = [*order.expressions] if order is not None else []
    hidden = {n: key.this for n, key in enumerate(keys) if not _is_output(key.this, known)}
    more = [exp.alias_(value(part), f"{_ORDER}{n}") for n, part in hidden.items()]
    more.append(exp.alias_(value(qualify.this), _QUALIFIED))
    above = ("with_", "distinct", "order", "limit", "offset")
    inner = with_args(select, qualify=None, expressions=[*columns, *more], **dict.fromkeys(above))
    outer = exp.select(*(exp.column(name, quoted=True) for name in names))
    outer = outer.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("__groups"))))
    outer = outer.where(exp.column(_QUALIFIED, quoted=True))
    for key in above:
        outer.set(key, select.args.get(key))
    if order is not None:
        named = (with_args(k, this=exp.column(f"{_ORDER}{n}")) if n in hidden else k for n, k in enumerate(keys))
        outer.set("order", with_args(order, expressions=[*named]))
    return outer


def _is_output(key: exp.Expr, names: set[str]) -> bool:
    """Whether a key of ORDER BY is a column of the select list, by name or number."""
    is_name = isinstance(key, exp.Column) and not key.table and key.name.casefold() in names
    return is_name or (isinstance(key, exp.Literal) and not key.is_string)
