"""Tables: rows of the connector, filtered by what the planner pushed down."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.nodes import Scan


@lower_node.register
def _(node: Scan, context: Context) -> DataFrame:
    rows = context.runtime.read(node, in_order=context.in_order)
    for predicate in node.predicates:
        rows = rows.where(context.column(predicate))
    return rows
