"""Names, literals and instants in Spark's SQL text, and the hidden columns that rows carry besides the plan's fields.

Spark's watermark starts at 1970 and never falls below, so a row of 1969 would be late from the start. All event
times that Spark sees are therefore shifted so that its clock starts at the year 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.planner.catalog import RowKind
from sqlstream.planner.expressions import as_expression
from sqlstream.udfs.event_times import END_OF_INPUT, LATEST
from sqlstream.udfs.exchange import CLOCK, HOLD, LATE, LATE_TABLE, PARTS
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, ROW_KIND
from sqlstream.udfs.lifts import LIFT

EPOCH_SHIFT_MS = 62_135_596_800_000
"""Milliseconds from 0001-01-01 to 1970-01-01."""

END_OF_INPUT_MS = END_OF_INPUT // 1000
"""The watermark after the last row: the last millisecond of the year 9999, the newest timestamp of SQL."""

AFTER_ALL_MS = LATEST // 500
"""A watermark that all windows of Spark's own operators have reached, as END_OF_INPUT_MS is to kernels: their ends are
at most ``event_times.LONGEST`` after the latest event time."""

EVENT_TIME = {"spark.watermarkDelayMs": 0}
"""Metadata by which Spark's stateful operators find the column to compare with the watermark."""


def quoted(name: str) -> str:
    """The name as a quoted identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def string(text: str) -> str:
    """The text as a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    return F.col(quoted(name))


def micros(name: str) -> str:
    """SQL text of a timestamp column in microseconds since 1970; TIMESTAMP_NTZ is read in the session's time zone."""
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"


def event_time(micros_text: str, offset_ms: int = 0) -> str:
    """SQL text of the timestamp that Spark compares with its watermark. ``micros_text`` is SQL text of microseconds
    since 1970, to which ``offset_ms`` milliseconds are added.
    """
    return f"timestamp_micros({micros_text} + {(EPOCH_SHIFT_MS + offset_ms) * 1000}L)"


def lifting_time(micros_text: str) -> str:
    """SQL text of the timestamp by which a row advances the watermark; NULL for times at or after the end-of-input
    marker, because no row may end the input. ``micros_text`` is SQL text of microseconds since 1970.
    """
    return f"CASE WHEN {micros_text} < {END_OF_INPUT}L THEN {event_time(micros_text)} END"


# --- hidden columns -------------------------------------------------------------------------------------------


_HIDDEN = {
    CLOCK: "TIMESTAMP",
    ROW_KIND: "STRING",
    EMITTED_AHEAD: "BOOLEAN",
    HOLD: "BIGINT",
    BARRIER: "BIGINT",
    LATE_TABLE: "STRING",
    LATE: "BINARY",
    LIFT: "BIGINT",
    **dict(zip(PARTS, ("BIGINT", "STRING", "BIGINT"), strict=True)),
}
"""With their types, in the order in which they stand."""

_MISSING = {ROW_KIND: RowKind.INSERT.value}

PASSING = (HOLD, LATE_TABLE, BARRIER)
"""Set in rows on their way to something else, with NULL in all fields: late rows for a table, aligned barriers, and
what operators say of held watermarks."""


def hidden_names(rows: DataFrame) -> list[str]:
    """The names of the hidden columns that the rows have."""
    return present(rows, _HIDDEN)


def present(rows: DataFrame, names: Iterable[str]) -> list[str]:
    """Those of the names that the rows have as columns. Spark is asked once: its answer is a whole schema."""
    columns = rows.columns
    return [name for name in names if name in columns]


def hidden(rows: DataFrame) -> list[Column]:
    """The hidden columns of the rows, which every stateless operator passes on."""
    return [column(name) for name in hidden_names(rows)]


def hidden_clock(rows: DataFrame) -> list[Column]:
    """A list with the hidden column in which the source has stamped the processing time of each row; an empty list if
    it stamps none.
    """
    return [column(CLOCK)] if CLOCK in rows.columns else []


def hidden_results(rows: DataFrame) -> list[Column]:
    """The hidden columns of a query's result that sinks read: the kind of each row, and the rows of side outputs for
    other tables.
    """
    return [column(name) for name in present(rows, (ROW_KIND, LATE_TABLE, LATE))]


def aligned(rows: DataFrame, names: set[str]) -> list[Column]:
    """Returns the hidden columns ``names`` in a fixed order, so that DataFrames can be united. A missing one is added:
    with +I for the kind of row, with NULL otherwise.
    """
    own = hidden_names(rows)
    return [
        column(name) if name in own else F.lit(_MISSING.get(name)).cast(kind).alias(name)
        for name, kind in _HIDDEN.items()
        if name in names
    ]


def passing(rows: DataFrame) -> exp.Expression | None:
    """A condition that is true for control rows and rows of side outputs, which bypass operators. It tests whether one
    of the hidden columns that only such rows have is set. None if ``rows`` has none of these columns.
    """
    markers = [exp.column(name, quoted=True).is_(exp.null()).not_() for name in present(rows, PASSING)]
    return as_expression(exp.or_(*markers)) if markers else None


def passes_by(rows: DataFrame) -> Column | None:
    """The condition ``passing`` as a column of Spark: true for control rows and rows of side outputs, which bypass
    operators. None if there are no such rows.
    """
    condition = passing(rows)
    return None if condition is None else F.expr(condition.sql(dialect=SparkWithTime))


def without_before(rows: DataFrame) -> DataFrame:
    """The rows without those of kind -U (UPDATE_BEFORE)."""
    if ROW_KIND not in rows.columns:
        return rows
    return rows.where(is_not_before())


def is_not_before() -> Column:
    """The condition that a row is not of kind -U (UPDATE_BEFORE)."""
    return F.expr(f"{ROW_KIND} IS DISTINCT FROM '{RowKind.UPDATE_BEFORE.value}'")
