"""``'on-error'``: what happens to rows that cannot be read, or whose Python function raises an exception.

``fail`` fails the job, ``skip`` drops and counts them, ``dead-letter:t`` counts them and writes what they were into the
table ``t``, in the same micro-batch as the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlstream.errors import repeating
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.expressions import columns_of
from sqlstream.types import STRING, TIMESTAMP, DataType

ON_ERROR = "on-error"

NULL_IN_COLUMN = repeating("SS403")

_DEAD_LETTER = "dead-letter"


class BadAction(Enum):
    """What happens to a bad row (one that cannot be read, or breaks NOT NULL): the job fails, the row is dropped, or a
    dead letter table receives it.
    """

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = _DEAD_LETTER


@dataclass(frozen=True)
class OnError:
    """What to do with bad rows, from the source's option ``on-error``: the action, and ``table`` for dead letters, None
    without one.
    """

    action: BadAction = BadAction.FAIL
    table: Table | None = None

    @property
    def tolerates(self) -> bool:
        return self.action is not BadAction.FAIL


FAIL = OnError()

DEAD_LETTER_COLUMNS: dict[str, tuple[tuple[DataType, ...], str]] = {
    "source": ((STRING,), "the table or the function"),
    "record": ((STRING, DataType("BINARY")), "what was read, or the arguments as JSON"),
    "error": ((STRING,), "code and message"),
    "place": ((STRING,), "the file, the topic with partition and offset, or the line of Python"),
    "failed_at": ((TIMESTAMP,), "when it was written"),
}
"""The columns that a table of dead letters may have: their types, the first one being that of the value, and what they
hold."""


def parse_on_error(text: str) -> tuple[BadAction, str | None]:
    """Parses a value of the option ``on-error``. Returns a pair: the action, and the name of the dead letter table,
    None without one. ValueError for an invalid text.
    """
    action, colon, table = text.strip().partition(":")
    bad_action = BadAction(action.strip().lower())
    if (bad_action is BadAction.DEAD_LETTER) != bool(colon) or bool(colon) != bool(table.strip()):
        raise ValueError(text)
    return bad_action, table.strip() or None


def action_of(table: Table) -> tuple[BadAction, str | None]:
    """The action for bad rows: the option ``on-error``, else Flink's ``ignore-parse-errors`` of the format."""
    stated = table.option(ON_ERROR)
    if stated is not None:
        return parse_on_error(stated)
    ignores = table.option(f"{(table.option('format') or '').lower()}.ignore-parse-errors") or "false"
    return (BadAction.SKIP if ignores.strip().lower() == "true" else BadAction.FAIL), None


def tolerates_bad_rows(table: Table) -> bool:
    """True where bad rows of the table do not fail the job."""
    return action_of(table)[0] is not BadAction.FAIL


def required_columns(table: Table) -> tuple[Column, ...]:
    """The physical columns in which NULL makes a row a bad one: those NOT NULL, and the event time."""
    time = table.watermark.column if table.watermark is not None else None
    return tuple(c for c in table.physical_columns if not c.nullable or c.name == time)


def computed_event_time(table: Table) -> Column | None:
    """The computed column that is the event time of the table; None if the time is stored, or there is none."""
    time = table.watermark.column if table.watermark is not None else None
    return next((c for c in table.columns if c.name == time and c.expression is not None), None)


def checked_columns(table: Table) -> tuple[Column, ...]:
    """The stored columns that decide whether a row is bad: the required ones, and those from which the event time is
    computed.
    """
    required, time = required_columns(table), computed_event_time(table)
    read = columns_of(time.expression) if time is not None and time.expression is not None else set()
    return (*required, *(c for c in table.columns if c.name in read and c not in required))


def columns_to_read(
    table: Table, columns: tuple[str, ...], on_error: OnError, *, checked: bool = False
) -> tuple[str, ...]:
    """The columns that a source must read: the requested ``columns``, those that decide whether a row is bad, and with
    a dead letter table all columns that a dead letter contains.

    ``checked``: the query checks rows by itself, and may find bad ones where the table alone has nothing to check.
    """
    of_table = checked_columns(table) if on_error.tolerates else ()
    if (of_table or checked) and on_error.table is not None:
        of_table = tuple(dict.fromkeys((*table.physical_columns, *of_table)))
    return (*columns, *(c.name for c in of_table if c.name not in columns))


def unfit_columns(table: Table) -> Iterator[str]:
    """Why a table cannot receive dead letters, as a text for messages; None if it can."""
    for column in table.physical_columns:
        kinds, _ = DEAD_LETTER_COLUMNS.get(column.name.lower(), ((), ""))
        if not kinds:
            yield f'they have no column "{column.name}"'
        elif column.type not in kinds:
            accepted = " or ".join(str(kind) for kind in kinds)
            yield f'column "{column.name}" is {column.type}, not {accepted}'
        elif not column.nullable:
            yield f'column "{column.name}" is NOT NULL'


# --- ``'parquet.missing-columns'`` and the like: what a column is that a file lacks ------------------------------


FORMATS = ("arrow", "avro", "json", "orc", "parquet")
"""Formats of files that name the columns of each row or file, and may lack some."""


def missing_are_null(table: Table) -> bool:
    """True where the table's options declare that columns missing in its files are NULL."""
    stated = table.option(f"{(table.option('format') or '').strip().lower()}.missing-columns") or ""
    return stated.strip().lower() == "null"
