"""Options that every source or every sink has."""

from __future__ import annotations

from sqlstream.options import DURATION, NAME, STRING, Option, OptionKind, integer, one_of
from sqlstream.planner import bad_rows
from sqlstream.planner.catalog import Table

CHANGELOG = Option(
    "changelog-mode", STRING, "The kinds of its rows, such as 'I' or 'I,UA,D'; rows are added only: 'I'."
)
ON_ERROR = Option(
    bad_rows.ON_ERROR,
    OptionKind("way", "'fail', 'skip', or 'dead-letter:' and the name of a table", bad_rows.parse_on_error),
    "What happens to rows that cannot be read; not given, they fail the job.",
)
EMIT_STRATEGY = Option(
    "scan.watermark.emit.strategy",
    one_of("on-periodic", "on-event"),
    "Either means the same: a watermark passes when a micro-batch ends, behind all its rows.",
)

_IDLE = "Without rows for so long it, or a partition of its topics, holds no watermark back; 0: never."
IDLE_TIMEOUT = Option("source.idle-timeout", DURATION, f"{_IDLE} Else 'table.exec.source.idle-timeout' holds.")

_TOGETHER = "Changes nothing: a micro-batch reads all sources, and their watermarks pass together behind it."
ALIGNMENT = (
    Option("scan.watermark.alignment.group", NAME, _TOGETHER),
    Option("scan.watermark.alignment.max-drift", DURATION, _TOGETHER),
    Option("scan.watermark.alignment.update-interval", DURATION, _TOGETHER),
)

SOURCE_OPTIONS = (
    CHANGELOG,
    ON_ERROR,
    EMIT_STRATEGY,
    *ALIGNMENT,
    IDLE_TIMEOUT,
    Option("scan.watermark.idle-timeout", DURATION, "Flink's name of 'source.idle-timeout'."),
)
"""Options of every source. The planner reads them, the connector does not."""

_OF_TABLE = ("source.idle-timeout", "scan.watermark.idle-timeout")


def idle_timeout_ms(table: Table, otherwise: int) -> int:
    """After how long without rows a table is idle, in milliseconds; 0: never. ``otherwise``: what the settings say."""
    given = next(filter(None, map(table.option, _OF_TABLE)), None)
    return otherwise if given is None else int(DURATION.parse(given))


PARALLELISM = Option(
    "sink.parallelism",
    integer(1),
    "So many tasks write the rows of a micro-batch; rows that update results stay with the tasks that make them.",
    source=False,
    sink=True,
)
"""An option of every sink."""

REPLACED = "replaced-partition"
"""An option that only plans of INSERT OVERWRITE have: what their sink replaces."""
