"""UNION ALL, and rows of one operator that several inputs of a step take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.hidden_columns import aligned, hidden_names, is_not_before, passes_by
from sqlstream.planner.lowering.stateless import all_hold
from sqlstream.planner.nodes import Union
from sqlstream.planner.physical.shared_operators import Branch, branches
from sqlstream.planner.physical.steps import Step
from sqlstream.udfs.kernel import ROW_KIND

BRANCH = "__branch"
"""For which of several inputs a row is: its number among them; their count for rows that pass by."""


def each_taken(rows: DataFrame, inputs: Sequence[Branch], context: Context) -> DataFrame:
    """The ``rows`` of an operator with the column BRANCH: each as often as ``inputs`` take it. Rows that pass by, as
    those of side outputs do, are there once.
    """
    passing = passes_by(rows)
    takers = [_taker(number, branch, rows, passing, context) for number, branch in enumerate(inputs)]
    takers += [] if passing is None else [F.when(passing, F.lit(len(inputs)))]
    return rows.select("*", F.explode(F.array_compact(F.array(*takers))).alias(BRANCH))


def is_for(number: int, branch: str = BRANCH) -> Column:
    """The condition that a row is for this one of the inputs. ``branch``: where its column BRANCH is."""
    return F.col(branch) == F.lit(number)


def _taker(number: int, branch: Branch, rows: DataFrame, passing: Column | None, context: Context) -> Column:
    """The number, where the input takes a row of the operator; else NULL."""
    taken = branch.taken
    conditions = [] if passing is None else [~passing]
    conditions += [all_hold(taken.conditions, context, rows)] if taken.conditions else []
    conditions += [is_not_before()] if taken.drops_before and ROW_KIND in rows.columns else []
    return F.when(reduce(and_, conditions), F.lit(number)) if conditions else F.lit(number)


# --- UNION ALL ---------------------------------------------------------------------------------------------------


def lower_union(node: Union, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of UNION ALL."""
    groups = [(inputs, context.lower(inputs[0].below)) for inputs in branches(step)]
    extra = {name for _, rows in groups for name in hidden_names(rows)}
    return _united([_of_union(rows, inputs, node, extra, context) for inputs, rows in groups])


def _united(parts: list[DataFrame]) -> DataFrame:
    """The union in their order, as a balanced tree, because Spark walks down its plans on the stack."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return _united(parts[:middle]).union(_united(parts[middle:]))


def _of_union(rows: DataFrame, inputs: Sequence[Branch], node: Union, extra: set[str], context: Context) -> DataFrame:
    """The rows that some inputs of a union take of ``rows``, with its fields and the hidden columns ``extra``."""
    values = [[context.column(value) for value in branch.taken.values] for branch in inputs]
    if len(inputs) > 1:
        rows = each_taken(rows, inputs, context)
        values = [[F.when(is_for(number), value) for value in own] for number, own in enumerate(values)]
    together = [own[0] if len(own) == 1 else F.coalesce(*own) for own in zip(*values, strict=True)]
    fields = zip(node.schema, together, strict=True)
    return rows.select(*(value.alias(field.name) for field, value in fields), *aligned(rows, extra))
