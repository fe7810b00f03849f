"""UNION ALL."""

from __future__ import annotations

from pyspark.sql import DataFrame

from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import aligned, hidden_names
from sqlstream.planner.lowering.lower import Context, lower_node
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Union
from sqlstream.planner.physical.steps import Step


@lower_node.register
def _(node: Union, step: Step, context: Context) -> DataFrame:
    branches = [context.lower(branch) for branch in step.inputs]
    extra = {name for rows in branches for name in hidden_names(rows)}
    renamed = (_renamed(rows, branch, node, extra) for rows, branch in zip(branches, node.branches, strict=True))
    return _united(list(renamed))


def _united(branches: list[DataFrame]) -> DataFrame:
    """The union in their order, as a balanced tree, because Spark walks down its plans on the stack."""
    if len(branches) == 1:
        return branches[0]
    middle = (len(branches) + 1) // 2
    return _united(branches[:middle]).union(_united(branches[middle:]))


def _renamed(rows: DataFrame, branch: Node, node: Union, extra: set[str]) -> DataFrame:
    fields = zip(branch.schema, node.schema, strict=True)
    return rows.select(*(column(own.name).alias(f.name) for own, f in fields), *aligned(rows, extra))
