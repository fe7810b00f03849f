"""GROUPING SETS: each row once per set, with the keys that the set leaves out as NULL. The set is a key of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sqlstream.planner.lowering.columns import column, quoted
from sqlstream.planner.lowering.hidden import passes_by
from sqlstream.planner.operators.group_aggregate import GroupAggregate
from sqlstream.planner.operators.window_aggregate import WindowAggregate

SET = "__set"

Grouped = WindowAggregate | GroupAggregate


def in_sets(node: Grouped, rows: DataFrame) -> DataFrame:
    """The rows once per set, whose number is the column SET; as they are where there are no sets, or no data."""
    if node.grouping_sets is None:
        return rows
    sets = F.sequence(F.lit(0), F.lit(len(node.grouping_sets) - 1))
    passing = passes_by(rows)
    return rows.select(
        "*", F.explode(sets if passing is None else F.when(passing, F.array(F.lit(0))).otherwise(sets)).alias(SET)
    )


def key_in_sets(node: Grouped, key: str, value: Column) -> Column:
    """The value of a key, NULL in sets that leave it out."""
    if node.grouping_sets is None:
        return value
    members = [i for i, members in enumerate(node.grouping_sets) if key in members]
    return F.when(column(SET).isin(members), value)


def set_keys(node: Grouped) -> list[str]:
    """The key that tells sets apart."""
    return [SET] if node.grouping_sets is not None else []


def grouping_id(node: Grouped) -> list[Column]:
    """GROUPING_ID over all keys: a bit per key, the first the highest, set where the key is left out."""
    if node.grouping_id is None:
        return []
    assert node.grouping_sets is not None, "only grouping sets have a GROUPING_ID"
    bits = [[key not in members for key in reversed(node.keys)] for members in node.grouping_sets]
    ids = (sum(bit << i for i, bit in enumerate(row)) for row in bits)
    array = f"array({', '.join(f'{i}L' for i in ids)})"
    return [F.expr(f"{array}[{quoted(SET)}]").alias(node.grouping_id)]
