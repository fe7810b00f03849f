"""Hidden columns: what rows carry beside the fields of the plan."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import RowKind
from sqlstream.planner.expressions import node_of
from sqlstream.planner.lowering.columns import column
from sqlstream.udfs.exchange import CLOCK, HOLD, LATE, LATE_TABLE, PARTS
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, ROW_KIND

_HIDDEN = {
    CLOCK: "TIMESTAMP",
    ROW_KIND: "STRING",
    EMITTED_AHEAD: "BOOLEAN",
    HOLD: "BIGINT",
    BARRIER: "BIGINT",
    LATE_TABLE: "STRING",
    LATE: "BINARY",
    **dict(zip(PARTS, ("BIGINT", "STRING", "BIGINT"), strict=True)),
}
"""With their types, in the order in which they stand."""

_MISSING = {ROW_KIND: RowKind.INSERT.value}

PASSING = (HOLD, LATE_TABLE, BARRIER)
"""Set in rows on their way to something else, with NULL in all fields: late rows for a table, aligned barriers, and
what operators say of held watermarks."""


def hidden_names(rows: DataFrame) -> list[str]:
    return [name for name in _HIDDEN if name in rows.columns]


def hidden(rows: DataFrame) -> list[Column]:
    """The hidden columns of the rows, which every stateless operator passes on."""
    return [column(name) for name in hidden_names(rows)]


def hidden_clock(rows: DataFrame) -> list[Column]:
    """The hidden column with the clock of each row, where the source stamps one."""
    return [column(CLOCK)] if CLOCK in rows.columns else []


def hidden_results(rows: DataFrame) -> list[Column]:
    """The hidden columns that leave the query: kinds of rows, and late rows for tables."""
    return [column(name) for name in (ROW_KIND, LATE_TABLE, LATE) if name in rows.columns]


def aligned(rows: DataFrame, names: set[str]) -> list[Column]:
    """The hidden columns ``names`` in their order. Rows without them are added, if it is their kinds; else NULL."""
    return [
        column(name) if name in rows.columns else F.lit(_MISSING.get(name)).cast(kind).alias(name)
        for name, kind in _HIDDEN.items()
        if name in names
    ]


def passing(rows: DataFrame) -> exp.Expression | None:
    """True for rows with one of PASSING. None where there are no such rows."""
    markers = [exp.column(name, quoted=True).is_(exp.null()).not_() for name in PASSING if name in rows.columns]
    return node_of(exp.or_(*markers)) if markers else None


def passes_by(rows: DataFrame) -> Column | None:
    """``passing`` as a column of Spark."""
    condition = passing(rows)
    return None if condition is None else F.expr(condition.sql(dialect=SparkWithTime))


def without_before(rows: DataFrame) -> DataFrame:
    """The rows but those of the kind -U."""
    if ROW_KIND not in rows.columns:
        return rows
    return rows.where(F.expr(f"{ROW_KIND} IS DISTINCT FROM '{RowKind.UPDATE_BEFORE.value}'"))
