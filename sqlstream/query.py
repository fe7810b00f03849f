"""Queries for the caller, whose rows come while they run, as Arrow tables and as Python values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError
from sqlstream.planner.catalog import RowKind
from sqlstream.results import SHOWN, Columns, Rows, text_table
from sqlstream.types import from_arrow
from sqlstream.udfs.event_times import time_text
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pandas as pd

    from sqlstream.batch.run import BatchRun
    from sqlstream.jobs import Job

# --- rows of Arrow tables: as Python values, for the eye, in a time zone -----------------------------------------


_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True, repr=False)
class ArrowRows(Rows):
    """The rows of an Arrow table."""

    _table: pa.Table = field(default=None, compare=False)

    @classmethod
    def of(cls, table: pa.Table) -> ArrowRows:
        """All rows of a table."""
        return cls(tuple(table.column_names), tuple(from_arrow(f.type) for f in table.schema), (), table)

    @cached_property
    def _fetched(self) -> list[tuple[Any, ...]]:
        return rows_of(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self._table

    def shown(self) -> list[tuple[Any, ...]]:
        """The rows for display: times that Python's datetime does not support are texts."""
        return shown_rows_of(self._table)


def in_time_zone(table: pa.Table, zone: str) -> pa.Table:
    """The table with its TIMESTAMPs, also nested ones, in the zone; the instants do not change."""
    fields = [f.with_type(from_arrow(f.type).to_arrow(zone)) if _has_zone(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields)) if any(_has_zone(f.type) for f in table.schema) else table


def _has_zone(type_: pa.DataType) -> bool:
    return any(nested.name == "TIMESTAMP" for nested in from_arrow(type_).parts())


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table; MAPs are dicts and STRUCTs dicts by field.

    ExecutionError SS469 for times that Python's datetime does not support.
    """
    columns = [_values(column, name) for name, column in zip(table.column_names, table.columns, strict=True)]
    return list(zip(*columns, strict=True)) if columns else []


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    what = f'a value of column "{name}"'
    if not _has_map(column.type):
        return python_list(column, what)
    if int(pa.__version__.partition(".")[0]) < 19:  # which has no name for it yet
        return [with_dicts(value, column.type) for value in python_list(column, what)]
    return python_list(column, what, maps_as_pydicts="strict")


def _has_map(type_: pa.DataType) -> bool:
    return any(nested.name == "MAP" for nested in from_arrow(type_).parts())


def with_dicts(value: Any, type_: pa.DataType) -> Any:
    """A value of ``as_py`` with its MAPs, which are lists of pairs there, as dicts."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {with_dicts(key, type_.key_type): with_dicts(held, type_.item_type) for key, held in value}
    if pa.types.is_struct(type_):
        return {field.name: with_dicts(value[field.name], field.type) for field in type_}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [with_dicts(element, type_.value_type) for element in value]
    return value


def shown_rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows for display: in columns with times that Python's datetime does not support, all times are texts."""
    return rows_of(_with_texts(table))


def _with_texts(table: pa.Table) -> pa.Table:
    for index, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            try:
                _ = [bound.as_py() for bound in pc.min_max(column).values()]
            except OverflowError:
                table = table.set_column(index, name, _texts(column))
    return table


def _texts(times: pa.ChunkedArray) -> pa.Array:
    """TIMESTAMPs on the clock of their zone, or DATEs, of any year."""
    if pa.types.is_date(times.type):
        days = times.cast(pa.int32()).to_pylist()
        return pa.array([None if day is None else time_text(day * _DAY_MICROS).partition(" ")[0] for day in days])
    wall = pc.local_timestamp(times) if times.type.tz is not None else times
    micros = wall.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return pa.array([None if time is None else time_text(time) for time in micros], pa.string())


# --- the table that the changes of an updating result amount to, micro-batch by micro-batch ----------------------


_ADDS = ("+I", "+U")


class ChangingTable:
    """The current rows of a changelog whose first column is the kind of each row.

    ``key`` names the columns, by position after the kind, by which a change replaces a row; the row then keeps its
    position. Without a key, equal rows are counted, and -U or -D removes one of them.
    """

    def __init__(self, key: Sequence[int] = ()) -> None:
        self._key = [str(position) for position in key]
        self._rows: pa.Table | None = None

    def apply(self, changes: pa.Table) -> pa.Table:
        """Apply changes and return the rows without their kinds, oldest first."""
        kinds, changed = changes.column(0), changes.remove_column(0)
        names = changed.column_names
        changed = changed.rename_columns([str(position) for position in range(changed.num_columns)])  # names may repeat
        adds = np.asarray(pc.is_in(kinds, pa.array(_ADDS)))
        if self._rows is not None:
            adds = np.concatenate((np.ones(self._rows.num_rows, np.bool_), adds))
            changed = pa.concat_tables([self._rows, changed])
        self._rows = changed.take(pa.array(self._left(changed, adds)))
        return self._rows.rename_columns(names)

    def _left(self, changed: pa.Table, adds: np.ndarray) -> np.ndarray:
        """The indices of the rows that are left, in the order in which their key or value appeared."""
        from sqlstream.udfs.keys import dense_ids  # pandas, which only updating results need

        numbered = dense_ids(changed, self._key or changed.column_names)
        if self._key:
            last = np.zeros(numbered.count, np.int64)
            np.maximum.at(last, numbered.ids, np.arange(len(adds)))
            kept: np.ndarray = last[adds[last]]
            return kept
        count = np.bincount(numbered.ids, np.where(adds, 1, -1), numbered.count).astype(np.int64)
        assert (count >= 0).all(), "a result takes no row back that it has not given"
        return np.repeat(numbered.first, count)


ENDLESS = "SS480"


class Query:
    """A running query: an iterator of its rows, which arrive while it runs. Each row is delivered once.

    Iterating, ``fetchmany``, ``batches``, ``to_arrow`` and so on all read the same stream of rows. Those of an
    updating query have their kind (+I, -U, +U, -D) in the first column, ``op``; ``table`` and ``tables`` apply
    them. ``key`` has the positions of the columns, without ``op``, by which they replace rows. TIMESTAMPs are shown
    in ``time_zone``.
    """

    def __init__(
        self,
        job: Job | BatchRun,
        columns: Columns,
        time_zone: str,
        *,
        updating: bool = False,
        key: Sequence[int] = (),
    ) -> None:
        self.job = job
        self.columns = tuple(name for name, _ in columns)
        self.types = tuple(type_ for _, type_ in columns)
        self.is_updating = updating
        self._key = tuple(key)
        self._time_zone = time_zone
        self._incoming = job.results()
        self._table: pa.Table | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._position = 0

    def batches(self) -> Iterator[pa.Table]:
        """The rows as they arrive, one Arrow table per micro-batch; ends with the query and raises its error."""
        if self._table is not None and self._position < len(self._rows):
            rest, self._position = self._table.slice(self._position), len(self._rows)
            yield rest
        for table in self._incoming:
            yield in_time_zone(table, self._time_zone)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        while self._position >= len(self._rows):
            self._table = in_time_zone(next(self._incoming), self._time_zone)
            self._rows, self._position = rows_of(self._table), 0
        self._position += 1
        return self._rows[self._position - 1]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns by which an updating query replaces rows; empty where it inserts and retracts whole rows."""
        return tuple(self.columns[position + 1] for position in self._key)

    def changes(self) -> Iterator[tuple[RowKind, tuple[Any, ...]]]:
        """The rows, each with its kind before it."""
        return ((RowKind(row[0]), row[1:]) if self.is_updating else (RowKind.INSERT, row) for row in self)

    def fetchmany(self, count: int) -> list[tuple[Any, ...]]:
        """The next ``count`` rows, fewer at the end of the query; waits for them."""
        return list(islice(self, count))

    def rows(self) -> Rows:
        """All rows, once the query has ended; of an updating query all changes, with their kinds.

        ExecutionError SS480 where it never ends.
        """
        self._require_end()
        tables = list(self.batches())
        return ArrowRows.of(pa.concat_tables(tables) if tables else self._empty())

    def table(self) -> Rows:
        """The final table of an updating query, once it has ended; of any other query its rows.

        ExecutionError SS480 where it never ends.
        """
        if not self.is_updating:
            return self.rows()
        self._require_end()
        last = self._empty().remove_column(0)
        for table in self.tables():
            last = table
        return ArrowRows.of(last)

    def tables(self) -> Iterator[pa.Table]:
        """The table after each micro-batch that changes it, from the current position of reading.

        Of an updating query it is without ``op``, with changed rows in place where it has a ``key``; of any other
        query all rows.
        """
        rows: list[pa.Table] = []
        changing = ChangingTable(self._key)
        for batch in self.batches():
            rows = [changing.apply(batch)] if self.is_updating else [*rows, batch]
            yield pa.concat_tables(rows)

    def _require_end(self) -> None:
        if not self.job.is_bounded:
            hint = "Iterate over it or over tables(), or fetchmany(n), and stop() it."
            message = "the query reads a source without an end, so it never has all rows"
            raise ExecutionError(ENDLESS, message, hint=hint)

    def _empty(self) -> pa.Table:
        return Rows(self.columns, self.types).to_arrow()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples, once the query has ended. ExecutionError SS480 where it never ends."""
        return self.rows().fetchall()

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table, once the query has ended. ExecutionError SS480 where it never ends."""
        return self.rows().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a DataFrame, once the query has ended. ExecutionError SS480 where it never ends."""
        return self.rows().to_pandas()

    def show(self, count: int = SHOWN) -> None:
        """Print the next ``count`` rows as a table."""
        sys.stdout.write(text_table(self.columns, self.fetchmany(count), count) + "\n")

    def stop(self) -> None:
        """Stop the query."""
        self.job.stop()

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Query {self.job.name} {self.job.state.value}: {', '.join(self.columns)}>"
