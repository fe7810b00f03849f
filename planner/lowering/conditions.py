"""Conditions of a filter, all of which must hold."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.planner.expressions import conjunction
from sqlstream.planner.lowering.hidden import passes_by
from sqlstream.planner.lowering.lower import Context

MOST_TOGETHER = 50
"""So many conditions AND joins."""


def where_all(rows: DataFrame, conditions: Sequence[exp.Expression], context: Context) -> DataFrame:
    """The rows for which all conditions hold, looked at in their order, and those that pass by.

    Where many are joined by AND, the time of Spark's optimizer grows with their cube: 6 s for 1,000, 80 s for 3,000. So
    more come as branches of a CASE, into which it does not look (1 s for 3,000).
    """
    parts = [conjunction([*conditions[i : i + MOST_TOGETHER]]) for i in range(0, len(conditions), MOST_TOGETHER)]
    if len(parts) == 1:
        condition = context.column(parts[0], rows)
    else:
        condition = _none_fails([context.sql(conjunct, rows) for conjunct in parts])
    passing = passes_by(rows)
    return rows.where(condition if passing is None else passing | condition)


def _none_fails(conditions: Sequence[str]) -> Column:
    branches = " ".join(f"WHEN NOT coalesce({condition}, false) THEN false" for condition in conditions)
    return F.expr(f"CASE {branches} ELSE true END")
