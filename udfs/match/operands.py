"""What conditions and measures of MATCH_RECOGNIZE read: values in single rows, and aggregates over rows.

Rows are those that the open match has so far, the one that is being mapped included; in measures all of the match.
``variable`` None stands for all of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall


@dataclass(frozen=True)
class Current:
    """The column in the row that is being mapped, or ``shift`` rows behind it (negative: before it) among all rows of
    the key. Where that is none, the value of the column ``absent`` or NULL."""

    name: str
    column: str
    shift: int = 0
    absent: str | None = None


@dataclass(frozen=True)
class Mapped:
    """The column in the first or last row of a variable, or in the one that is ``offset`` rows of the variable away
    from it, towards the other end; ``shift`` and ``absent`` as above. ``running``: for each row of a match, that row is
    the last of the match that counts."""

    name: str
    column: str
    variable: str | None
    last: bool = True
    offset: int = 0
    shift: int = 0
    absent: str | None = None
    running: bool = True


@dataclass(frozen=True)
class Aggregated:
    """An aggregate over the rows of a variable."""

    call: AggregateCall
    variable: str | None
    running: bool = True

    @property
    def name(self) -> str:
        return self.call.name


@dataclass(frozen=True)
class Classifier:
    """The variable of the last row."""

    name: str
    running: bool = True


@dataclass(frozen=True)
class MatchNumber:
    """The number of the match among those of its key, from 1 on."""

    name: str


Operand = Current | Mapped | Aggregated
Measure = Mapped | Aggregated | Classifier | MatchNumber


def field_of(measure: Measure, rows: pa.Schema) -> pa.Field:
    match measure:
        case Mapped():
            return pa.field(measure.name, rows.field(measure.column).type)
        case Aggregated():
            return pa.field(measure.name, measure.call.result)
        case Classifier():
            return pa.field(measure.name, pa.string())
        case MatchNumber():
            return pa.field(measure.name, pa.int64())


def columns_of(read: Operand | Measure) -> tuple[str, ...]:
    """The columns of rows that it reads."""
    match read:
        case Current() | Mapped():
            return (read.column, *([read.absent] if read.absent else []))
        case Aggregated():
            call = read.call
            ordered = (ordering.column for ordering in call.order)
            return (*call.arguments, *ordered, *([call.filter] if call.filter else []))
    return ()
