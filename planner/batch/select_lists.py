"""Select lists over finished data: what streams execute of aliases and GROUPING, and Spark refuses, written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

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
from sqlstream.planner.functions.calls import AGGREGATE_WRAPPERS, spark_name

_BITS = {"grouping": "TINYINT", "grouping_id": "BIGINT"}


NamesOfTable = Callable[[str], Collection[str]]
"""The names, in lower case, of the columns that a table of FROM has; empty where its name stands for none."""


def names_of_tables(query: exp.Expr, tables: Mapping[str, Collection[str]]) -> NamesOfTable:
    """Returns a function from the name of a table in the query, or of one of WITH, to the names of its columns. For
    queries of WITH that share a name, those of all of them. ``tables`` has the names of the tables' columns.
    """
    parts: dict[str, list[exp.CTE]] = {}
    for part in query.find_all(exp.CTE):
        parts.setdefault(part.alias.casefold(), []).append(part)
    known: dict[str, frozenset[str]] = {}

    def names(table: str) -> Collection[str]:
        name = table.casefold()
        if name not in parts:
            return tables.get(table, ())
        if name not in known:
            known[name] = frozenset()  # of a recursive query, which names itself
            known[name] = frozenset(column for part in parts[name] for column in _names_given(part, names))
        return known[name]

    return names


def _names_given(part: exp.Expr, names: NamesOfTable) -> Iterator[str]:
    """The names, in lower case, that a part of FROM or a query of WITH gives to columns, as far as it says them."""
    for node in part.walk(prune=_is_whole_query):
        if isinstance(node, exp.Alias):
            yield node.alias.casefold()
        elif isinstance(node, exp.TableAlias):
            yield from (column.name.casefold() for column in node.columns)
        elif _is_whole_query(node):
            yield from _names_of_columns(node, names)
        elif isinstance(node, exp.Table):
            yield from names(node.name)


def _is_whole_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) and not isinstance(node, exp.Subquery)


def _names_of_columns(query: exp.Expr, names: NamesOfTable) -> Iterator[str]:
    """The names of the columns of a query; for a star those that its FROM gives, too."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    for column in query.expressions if isinstance(query, exp.Select) else ():
        yield column.alias_or_name.casefold()
    if isinstance(query, exp.Select) and query.is_star:
        yield from (name for part in _sources(query) for name in _names_given(part, names))


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    """The parts of a SELECT that give it columns."""
    for key in ("from_", "joins", "laterals"):
        part = select.args.get(key)
        yield from part if isinstance(part, list) else [part] if part is not None else []


def with_aliases_read(select: exp.Select, names: NamesOfTable, aggregates: Callable[[exp.Expr], bool]) -> exp.Select:
    """Returns the SELECT in which column aliases are replaced by their expressions where Spark does not resolve them:
    inside aggregates and OVER, and with GROUP BY in all columns.

    An alias is not replaced if FROM gives its name to a column: a table (``names``), or a subquery. ``aggregates`` is
    true for expressions with an aggregate.
    """
    grouped = select.args.get("group") is not None
    below = {name for part in _sources(select) for name in _names_given(part, names)}
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
        if name and own[name] == 1 and name not in below:
            whole = as_expression(value(column.this, inside=True))
            if is_repeatable(whole) and whole.find(exp.Query) is None:
                aliases[name] = whole
    same = all(column is before for column, before in zip(columns, select.expressions, strict=True))
    return select if same else with_args(select, expressions=columns)


def with_grouping_of_spark(select: exp.Select) -> exp.Select:
    """Returns the SELECT with GROUPING and GROUPING_ID as Spark has them. If GROUP BY has no grouping sets, where Spark
    refuses them, they are 0. Otherwise those of some of the keys, or of several, are made of calls for one key each.
    """
    group = select.args.get("group")
    if group is None or not any(map(_is_bits, own_expressions(select))):
        return select
    has_sets = has_grouping_sets(select)
    keys = {*_keys(select, group), *(group.walk() if has_sets else ())}
    named = {column.alias.casefold(): column.this for column in select.expressions if isinstance(column, exp.Alias)}

    def key_of(argument: exp.Expr) -> exp.Expr:
        """The key, also where the argument is its alias."""
        argument = argument.unnest()  # which an alias that was read has around it
        is_name = isinstance(argument, exp.Column) and not argument.table and argument not in keys
        return named.get(argument.name.casefold(), argument) if is_name else argument

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        if _is_bits(node):
            arguments = [key_of(argument) for argument in node.expressions]
            kind = "BIGINT" if len(arguments) != 1 else _BITS[spark_name(node) or ""]
            if has_sets and arguments:
                return _bits_of_keys(arguments, kind)
            if not has_sets and all(argument in keys for argument in arguments):
                return exp.cast(exp.Literal.number(0), exp.DataType.build(kind))
        return with_children_changed(node, value)

    clauses = {key: select.args[key] for key in ("having", "qualify", "order") if select.args.get(key) is not None}
    columns = [_named(value(column), column) for column in select.expressions]
    return with_args(select, expressions=columns, **{key: value(clause) for key, clause in clauses.items()})


def _bits_of_keys(keys: Sequence[exp.Expr], kind: str) -> exp.Expr:
    """One bit for each key, the first one's the highest."""
    bits = [exp.Anonymous(this="GROUPING", expressions=[key.copy()]) for key in keys]
    if kind == "TINYINT":
        return bits[0]
    total: exp.Expr = bits[0]
    for bit in bits[1:]:
        total = exp.Add(this=exp.Mul(this=exp.paren(total), expression=exp.Literal.number(2)), expression=bit)
    return exp.cast(total, exp.DataType.build(kind))


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


_PART = "__part_"


def qualified_above_groups(
    select: exp.Select, is_column: Callable[[str], bool], aggregates: Callable[[exp.Expr], bool]
) -> exp.Select:
    """Returns a SELECT with the QUALIFY of the given one, which has GROUP BY, over the groups. Of groups, Spark reads
    in QUALIFY only the columns of the select list, and refuses aggregates and keys that are no such columns.

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
    keys = {key for key in _keys(select, group) if not isinstance(key, exp.Literal)}
    parts: dict[exp.Expression, str] = {}

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return with_children_changed(node, lambda child: called(child) if child is node.this else value(child))
        if isinstance(node, exp.Column) and not node.table and node.name.casefold() in known:
            is_part = is_column(node.name.casefold())
        else:
            is_part = node in keys or isinstance(node, exp.Column) or aggregates(_unwrapped(node))
        if is_part:
            return exp.column(parts.setdefault(as_expression(node), f"{_PART}{len(parts)}"))
        return with_children_changed(node, value)

    def called(node: exp.Expr) -> exp.Expr:
        """The function of OVER: what it reads are parts, it is none."""
        return with_children_changed(node, called if isinstance(node, AGGREGATE_WRAPPERS) else value)

    outer = exp.select(*(exp.column(name, quoted=True) for name in names))
    outer.set("qualify", value(qualify))
    order, windows = select.args.get("order"), select.args.get("windows")
    by = [key if _is_named(key.this, known) else value(key) for key in (order.expressions if order is not None else ())]
    outer.set("order", None if order is None else with_args(order, expressions=by))
    outer.set("windows", None if windows is None else [*map(value, windows)])
    more = [exp.alias_(part, name) for part, name in parts.items()]
    above = ("with_", "distinct", "limit", "offset")
    inner = with_args(select, qualify=None, order=None, expressions=[*columns, *more], **dict.fromkeys(above))
    for key in above:
        outer.set(key, select.args.get(key))
    groups = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("__groups")))
    return outer.from_(groups, copy=False)


def _is_named(key: exp.Expr, names: set[str]) -> bool:
    return isinstance(key, exp.Column) and not key.table and key.name.casefold() in names


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, AGGREGATE_WRAPPERS):
        node = node.this
    return node
