"""Names, literals and instants in Spark's SQL text, and the one shift between our event time and Spark's.

Spark's watermark starts at 1970 and never falls below, so a row of 1969 would be late from the start. All event
times that Spark sees are therefore shifted so that its clock starts at the year 1.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from sqlstream.udfs.event_times import END_OF_INPUT, LATEST

EPOCH_SHIFT_MS = 62_135_596_800_000
"""Milliseconds from 0001-01-01 to 1970-01-01."""

END_OF_INPUT_MS = END_OF_INPUT // 1000
"""The watermark after the last row: the last millisecond of the year 9999, the newest timestamp of SQL."""

AFTER_ALL_MS = LATEST // 500
"""A watermark that all windows of Spark's own operators have reached, as END_OF_INPUT_MS is to kernels: their ends are
at most ``event_times.LONGEST`` after the latest event time."""

EVENT_TIME = {"spark.watermarkDelayMs": 0}
"""Metadata by which Spark's stateful operators know a column that the watermark is compared with."""


def quoted(name: str) -> str:
    """``name`` as an identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def string(text: str) -> str:
    """``text`` as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def column(name: str) -> Column:
    return F.col(quoted(name))


def micros(name: str) -> str:
    """SQL text: microseconds since 1970 of a timestamp column; TIMESTAMP_NTZ counts in the session's time zone."""
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"


def event_time(micros_text: str, offset_ms: int = 0) -> str:
    """SQL text: the instant that Spark compares with its watermark, for microseconds since 1970."""
    return f"timestamp_micros({micros_text} + {(EPOCH_SHIFT_MS + offset_ms) * 1000}L)"


def lifting_time(micros_text: str) -> str:
    """SQL text: the same for a row that lifts the watermark by its time; NULL from the end of the input on."""
    return f"CASE WHEN {micros_text} < {END_OF_INPUT}L THEN {event_time(micros_text)} END"
