"""Aggregates without GROUP BY over finished data: they have a result also if there is no row.

A stream has none until a row comes, as in Flink. Over finished data COUNT is 0 and SUM is NULL, as in SQL, and as
Spark, and Flink in batch mode, give it. Where such a query runs as a stream, each of these aggregates reads one more
row, which FILTER leaves out.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.aggregate_calls import with_filter
from sqlstream.planner.catalog import ONE_ROW
from sqlstream.planner.expressions import as_expression, columns_of
from sqlstream.planner.fields import Field, Item, UniqueNames, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, Scan, Union
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.types import BOOLEAN


def lacks_result(node: Node) -> bool:
    """True for an aggregate without GROUP BY, which as a stream emits nothing before its first row."""
    return isinstance(node, GroupAggregate) and not node.keys and node.grouping_sets is None


def with_result_of_no_rows(node: GroupAggregate) -> GroupAggregate:
    """Returns the aggregate over its input and one more row, which no aggregate call counts. Unchanged if it has keys
    or grouping sets, or if the type of a value that it reads is not known.
    """
    read = frozenset[str]().union(*(columns_of(item.expression) for item in node.aggregates))
    fields = tuple(replace(f, time=None) for f in node.input.schema if f.name in read)
    if not lacks_result(node) or any(f.type.is_unknown for f in fields):
        return node
    counts = UniqueNames(f.name for f in node.input.schema).unique("counts")
    rows = Project(node.input, (*(f.as_item for f in fields), Item(counts, exp.true(), BOOLEAN)))
    one = Project(Scan(ONE_ROW, ("row",)), (*map(_null, fields), Item(counts, exp.false(), BOOLEAN)))
    aggregates = (replace(a, expression=_filtered(a.expression, counts)) for a in node.aggregates)
    return replace(node, input=Union((rows, one)), aggregates=tuple(aggregates))


def _null(field: Field) -> Item:
    return Item(field.name, exp.cast(exp.Null(), field.type.to_sqlglot()), field.type)


def _filtered(call: exp.Expression, counts: str) -> exp.Expression:
    """An aggregate call over the rows in which the field ``counts`` is TRUE. IGNORE NULLS stays around FILTER."""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        return type(call)(this=_filtered(as_expression(call.this), counts))
    return with_filter(call, field_of(counts))
