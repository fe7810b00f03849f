"""UNION ALL."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.nodes import Node, Union


@lower_node.register
def _(node: Union, context: Context) -> DataFrame:
    names = [f.name for f in node.schema]
    branches = (_renamed(branch, names, context) for branch in node.branches)
    return reduce(lambda left, right: left.union(right), branches)


def _renamed(branch: Node, names: list[str], context: Context) -> DataFrame:
    fields = zip(branch.schema, names, strict=True)
    return context.lower(branch).select(*(column(f.name).alias(name) for f, name in fields))
