"""Functions over frames: aggregates, row numbers and ranks, and values of other rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.line import Bounds, Indices, Line


class Number(Enum):
    """The kinds of row numbers and ranks."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True)
class Aggregated:
    """An aggregate over a frame."""

    call: AggregateCall
    frame: Frame

    @property
    def field(self) -> pa.Field:
        """The result column."""
        return pa.field(self.call.name, self.call.result)


@dataclass(frozen=True)
class Numbered:
    """The number of a row in the order of its key, from 1; peers have the same number except for ROW_NUMBER."""

    name: str
    number: Number
    type: pa.DataType

    @property
    def field(self) -> pa.Field:
        """The result column."""
        return pa.field(self.name, self.type)

    def values(self, line: Line, counted: Indices, groups: Indices) -> pa.Array:
        """The results. ``counted`` and ``groups``: how many rows, and groups of peers, of the key precede those of the
        line."""
        match self.number:
            case Number.ROW_NUMBER:
                numbers = np.arange(len(line)) - line.first + counted
            case Number.RANK:
                numbers = line.first_peer - line.first + counted
            case Number.DENSE_RANK:
                group = np.cumsum(line.begins_peers)
                numbers = group - group[line.first] + groups
        return pa.array(numbers + 1).cast(self.type)


@dataclass(frozen=True)
class Shifted:
    """LAG and LEAD: the value of ``column`` in the row ``offset`` rows later, or earlier if it is negative.

    ``default``: the column with the value if there is no such row; None for NULL.
    """

    name: str
    column: str
    offset: int
    type: pa.DataType
    default: str | None = None

    @property
    def field(self) -> pa.Field:
        """The result column."""
        return pa.field(self.name, self.type)

    @property
    def frame(self) -> Frame:
        """The frame that contains the other row."""
        return Frame(rows=True, start=min(self.offset, 0), end=max(self.offset, 0))

    def values(self, line: Line, rows: pa.Table) -> pa.Array:
        """The results for all rows of the line."""
        row_indices = np.arange(len(line)) + self.offset
        inside = (row_indices >= line.first) & (row_indices < line.end)
        shifted = _at(rows, self.column, row_indices, inside)
        if self.default is None:
            return shifted
        return pc.if_else(pa.array(inside), shifted, rows.column(self.default).combine_chunks().cast(shifted.type))


@dataclass(frozen=True)
class Nth:
    """NTH_VALUE: the value of the ``n``-th row of a frame, NULL if it has fewer rows."""

    name: str
    column: str
    n: int
    frame: Frame
    type: pa.DataType

    def __post_init__(self) -> None:
        assert self.n >= 1

    @property
    def field(self) -> pa.Field:
        """The result column."""
        return pa.field(self.name, self.type)

    def values(self, bounds: Bounds, rows: pa.Table) -> pa.Array:
        """The results for rows with these frames."""
        row_indices = bounds.start + self.n - 1
        return _at(rows, self.column, row_indices, row_indices < bounds.stop)


OverFunction = Aggregated | Numbered | Shifted | Nth


def columns_of(function: OverFunction) -> tuple[str, ...]:
    """The columns of the input that the function reads."""
    match function:
        case Aggregated(call):
            filters = () if call.filter is None else (call.filter,)
            return (*call.arguments, *filters, *(o.column for o in call.order))
        case Numbered():
            return ()
        case Shifted(column=column, default=default):
            return (column,) if default is None else (column, default)
        case Nth(column=column):
            return (column,)


def _at(rows: pa.Table, column: str, row_indices: Indices, inside: np.ndarray) -> pa.Array:
    """The values of other rows; NULL where there is none."""
    return rows.column(column).combine_chunks().take(pa.array(row_indices, mask=~inside))
