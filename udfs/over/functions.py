"""Functions over frames: aggregates, row numbers and ranks, places in a partition, and values of other rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.aggregates import AggregateCall
from sqlstream.udfs.aggregates.ordered import NTH_VALUE
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.line import Bounds, Flags, Indices, SortedRows


class Number(Enum):
    """The functions that number rows: ROW_NUMBER, RANK and DENSE_RANK."""

    ROW_NUMBER = "row_number"
    RANK = "rank"
    DENSE_RANK = "dense_rank"


@dataclass(frozen=True)
class Aggregated:
    """An aggregate call over a frame."""

    call: AggregateCall
    frame: Frame

    @property
    def field(self) -> pa.Field:
        """The field of the result column."""
        return pa.field(self.call.name, self.call.result)


@dataclass(frozen=True)
class Numbered:
    """ROW_NUMBER, RANK or DENSE_RANK: the number of a row in the order of its key, from 1; peers have the same number
    except for ROW_NUMBER.
    """

    name: str
    number: Number
    type: pa.DataType

    @property
    def field(self) -> pa.Field:
        """The field of the result column."""
        return pa.field(self.name, self.type)

    def values(self, ordered: SortedRows, counted: Indices, groups: Indices) -> pa.Array:
        """The result for each row of ``ordered``. The first rows of a key may be no longer stored; ``counted`` is, for
        each row, how many rows these are, and ``groups`` how many groups of peers.
        """
        match self.number:
            case Number.ROW_NUMBER:
                numbers = np.arange(len(ordered)) - ordered.first + counted
            case Number.RANK:
                numbers = ordered.first_peer - ordered.first + counted
            case Number.DENSE_RANK:
                group = np.cumsum(ordered.begins_peers)
                numbers = group - group[ordered.first] + groups
        return pa.array(numbers + 1).cast(self.type)


class Place(Enum):
    """The functions of the relative position of a row among all rows of its key: NTILE, PERCENT_RANK and CUME_DIST."""

    NTILE = "ntile"
    PERCENT_RANK = "percent_rank"
    CUME_DIST = "cume_dist"


@dataclass(frozen=True)
class Placed:
    """NTILE, PERCENT_RANK or CUME_DIST, as in SQL:2016.

    They depend on the number of rows of the key, so they are final when the key has all its rows. ``buckets``: the
    argument of NTILE.
    """

    name: str
    place: Place
    buckets: int = 1

    @property
    def field(self) -> pa.Field:
        """The field of the result column."""
        return pa.field(self.name, pa.int32() if self.place is Place.NTILE else pa.float64())

    def values(self, ordered: SortedRows) -> pa.Array:
        """The result for each row of ``ordered``, which must have all rows of its keys."""
        count = ordered.end - ordered.first
        match self.place:
            case Place.NTILE:
                size, longer = np.divmod(count, self.buckets)  # the first buckets have one row more
                row = np.arange(len(ordered)) - ordered.first
                in_longer = longer * (size + 1)
                in_shorter = longer + (row - in_longer) // np.maximum(size, 1)
                return pa.array(np.where(row < in_longer, row // (size + 1), in_shorter) + 1).cast(pa.int32())
            case Place.PERCENT_RANK:
                return pa.array((ordered.first_peer - ordered.first) / np.maximum(count - 1, 1))
            case Place.CUME_DIST:
                return pa.array((ordered.after_peers - ordered.first) / count)


@dataclass(frozen=True)
class Shifted:
    """LAG and LEAD: the value of ``column`` in the row that is ``offset`` rows later, or earlier if ``offset`` is
    negative.

    ``default``: the column with the value to return if there is no such row; None for NULL. ``ignore_nulls``: rows in
    which the column is NULL are not counted.
    """

    name: str
    column: str
    offset: int
    type: pa.DataType
    default: str | None = None
    ignore_nulls: bool = False

    @property
    def field(self) -> pa.Field:
        """The field of the result column."""
        return pa.field(self.name, self.type)

    @property
    def frame(self) -> Frame:
        """The frame within which the returned value lies; unbounded where NULLs are ignored."""
        if self.ignore_nulls:
            return Frame(rows=True, start=None, end=-1) if self.offset < 0 else Frame(rows=True, start=1, end=None)
        return Frame(rows=True, start=min(self.offset, 0), end=max(self.offset, 0))

    @property
    def of_totals(self) -> AggregateCall:
        """For LAG with IGNORE NULLS the equivalent aggregate over the frame: the n-th value from its end, where n is
        ``-offset``. Unlike LAG it can be computed from accumulators of rows that are no longer stored.
        """
        assert self.ignore_nulls and self.offset < 0, "other rows are individually there"
        return _nth_call(self.name, self.column, -self.offset, self.type, last=True, ignore_nulls=True)

    def found(self, ordered: SortedRows, rows: pa.Table) -> tuple[Indices, Flags]:
        """Returns two arrays with one value per row of ``ordered``: the index of the row whose value is returned, and
        whether that row exists.
        """
        if self.ignore_nulls:
            # The number, among the values, of the first one after the row, less 1; or of the first one from the row on.
            present, ahead = _present(rows, self.column), self.offset > 0
            number = np.searchsorted(present, np.arange(len(ordered)), side="right" if ahead else "left") - ahead
            row_indices, inside = _nth_present(present, number + self.offset)
        else:
            row_indices, inside = np.arange(len(ordered)) + self.offset, np.ones(len(ordered), np.bool_)
        return row_indices, inside & (row_indices >= ordered.first) & (row_indices < ordered.end)

    def values(self, ordered: SortedRows, rows: pa.Table) -> pa.Array:
        """The result for each row of ``ordered``."""
        row_indices, inside = self.found(ordered, rows)
        return self.defaulted(_at(rows, self.column, row_indices, inside), pa.array(inside), rows)

    def defaulted(self, values: pa.Array, found: pa.Array, rows: pa.Table) -> pa.Array:
        """The ``values``, one for each of ``rows``, with the default of that row where ``found`` is false."""
        if self.default is None:
            return values
        return pc.if_else(found, values, rows.column(self.default).combine_chunks().cast(values.type))


@dataclass(frozen=True)
class Nth:
    """NTH_VALUE: the value of ``column`` in the ``n``-th row of a frame, NULL if the frame has fewer rows.
    ``ignore_nulls``: rows in which the column is NULL are not counted.
    """

    name: str
    column: str
    n: int
    frame: Frame
    type: pa.DataType
    ignore_nulls: bool = False

    def __post_init__(self) -> None:
        assert self.n >= 1

    @property
    def field(self) -> pa.Field:
        """The field of the result column."""
        return pa.field(self.name, self.type)

    @property
    def of_totals(self) -> AggregateCall:
        """The equivalent aggregate over the frame, which can be computed from accumulators of rows that are no longer
        stored.
        """
        return _nth_call(self.name, self.column, self.n, self.type, last=False, ignore_nulls=self.ignore_nulls)

    def values(self, bounds: Bounds, rows: pa.Table) -> pa.Array:
        """The result for each frame of ``bounds``, which are ranges of the indices of ``rows``."""
        row_indices, inside = bounds.start + self.n - 1, np.ones(len(bounds.start), np.bool_)
        if self.ignore_nulls:
            present = _present(rows, self.column)
            row_indices, inside = _nth_present(present, np.searchsorted(present, bounds.start) + self.n - 1)
        return _at(rows, self.column, row_indices, inside & (row_indices < bounds.stop))


def _nth_call(name: str, column: str, n: int, kind: pa.DataType, *, last: bool, ignore_nulls: bool) -> AggregateCall:
    return AggregateCall(name, NTH_VALUE, (column,), kind, constants=(n, last), ignore_nulls=ignore_nulls)


def _present(rows: pa.Table, column: str) -> Indices:
    """The rows with a value, ascending."""
    return np.flatnonzero(rows.column(column).is_valid().to_numpy())


def _nth_present(present: Indices, numbers: Indices) -> tuple[Indices, Flags]:
    """The rows with a value by their numbers, and whether there is one."""
    inside = (numbers >= 0) & (numbers < len(present))
    return np.append(present, 0)[np.where(inside, numbers, len(present))], inside


OverFunction = Aggregated | Numbered | Placed | Shifted | Nth


def columns_of(function: OverFunction) -> tuple[str, ...]:
    """The names of the input columns that the function reads."""
    match function:
        case Aggregated(call):
            filters = () if call.filter is None else (call.filter,)
            return (*call.arguments, *filters, *(o.column for o in call.order))
        case Numbered() | Placed():
            return ()
        case Shifted(column=column, default=default):
            return (column,) if default is None else (column, default)
        case Nth(column=column):
            return (column,)


def _at(rows: pa.Table, column: str, row_indices: Indices, inside: np.ndarray) -> pa.Array:
    """The values of other rows; NULL where there is none."""
    return rows.column(column).combine_chunks().take(pa.array(row_indices, mask=~inside))
