"""``INSERT INTO t PARTITION (p = value)``: the values become columns of the query."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.grammar.nodes import Insert, PartitionValue
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.catalog import Catalog, Table

NO_PARTITIONS = "SS295"
PARTITIONS_OPTION = "partition-by"


def partitions_of(table: Table) -> list[str]:
    """The columns that are partitions of the table."""
    names = (table.option(PARTITIONS_OPTION) or "").split(",")
    return [name.strip() for name in names if name.strip()]


def without_partition(statement: Insert, catalog: Catalog) -> Insert:
    """The same INSERT with a list of columns instead. BindError SS295 for what is no partition of its table."""
    table = catalog.relation(str(statement.target))
    if not statement.partition or not isinstance(table, Table):
        return replace(statement, partition=()) if statement.partition else statement
    fixed = [value for value in statement.partition if value.value is not None]
    for value in statement.partition:
        _require_partition(value, table)
    names = {value.column.casefold() for value in fixed}
    given = statement.columns or tuple(c.name for c in table.physical_columns)
    columns = tuple(name for name in given if name.casefold() not in names)
    query = _with_values(statement.query, fixed) if fixed else statement.query
    return replace(statement, query=query, columns=(*columns, *(value.column for value in fixed)), partition=())


def _require_partition(value: PartitionValue, table: Table) -> None:
    names = partitions_of(table)
    if value.column.casefold() not in {name.casefold() for name in names}:
        message = f'"{value.column}" is no partition column of table "{table.name}"'
        hint = f"They are {', '.join(names)}." if names else "CREATE TABLE … PARTITIONED BY (…) declares some."
        raise bind_error(NO_PARTITIONS, message, value.span, hint)


def _with_values(query: exp.Expression, fixed: list[PartitionValue]) -> exp.Expression:
    """The query with the values as its last columns."""
    if isinstance(query, exp.Select):
        copy = query.copy()
        for value in fixed:
            copy.append("expressions", _aliased(value))
    else:
        inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("q")))
        copy = exp.Select(expressions=[exp.Star(), *map(_aliased, fixed)], from_=exp.From(this=inner))
    mark_as(copy, query)
    return copy


def _aliased(value: PartitionValue) -> exp.Alias:
    assert value.value is not None
    return exp.Alias(this=value.value.copy(), alias=exp.to_identifier(value.column, quoted=True))
