"""Queries for the caller, whose rows come while they run, as Arrow tables and as Python values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExecutionError, SqlStreamError
from sqlstream.planner.catalog import RowKind
from sqlstream.results import SHOWN, Columns, Rows, text_table
from sqlstream.types import DataType, from_arrow
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
    """A finished result whose rows are in an Arrow table."""

    _table: pa.Table = field(default=None, compare=False)

    @classmethod
    def of(cls, table: pa.Table) -> ArrowRows:
        """Returns all rows of an Arrow table as a result."""
        return cls(tuple(table.column_names), tuple(from_arrow(f.type) for f in table.schema), (), table)

    @cached_property
    def _fetched(self) -> list[tuple[Any, ...]]:
        return rows_of(self._table)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self._table

    def shown(self) -> list[tuple[Any, ...]]:
        """Returns the rows for display. Times that Python's datetime cannot represent are texts."""
        return shown_rows_of(self._table)


def has_texts(table: pa.Table) -> bool:
    """True where all STRINGs of the rows are UTF-8."""
    try:
        for column in table.columns:
            if _has(column.type, "STRING"):
                column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def in_time_zone(table: pa.Table, zone: str) -> pa.Table:
    """Returns the table with all TIMESTAMP columns, also nested ones, in the time zone. The instants do not change."""
    fields = [f.with_type(from_arrow(f.type).to_arrow(zone)) if _has(f.type, "TIMESTAMP") else f for f in table.schema]
    return table.cast(pa.schema(fields)) if any(_has(f.type, "TIMESTAMP") for f in table.schema) else table


def _has(type_: pa.DataType, name: str) -> bool:
    return any(nested.name == name for nested in from_arrow(type_).parts())


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the rows of an Arrow table as tuples of Python values. A MAP is a dict; a STRUCT is a dict by field
    name.

    Raises ExecutionError SS469 for times that Python's datetime cannot represent.
    """
    columns = [_values(column, name) for name, column in zip(table.column_names, table.columns, strict=True)]
    return list(zip(*columns, strict=True)) if columns else []


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    what = f'a value of column "{name}"'
    if not _has(column.type, "MAP"):
        return python_list(column, what)
    if int(pa.__version__.partition(".")[0]) < 19:  # which has no name for it yet
        return [with_dicts(value, column.type) for value in python_list(column, what)]
    return python_list(column, what, maps_as_pydicts="strict")


def with_dicts(value: Any, type_: pa.DataType) -> Any:
    """Converts MAPs in a value from ``as_py`` of Arrow, which are lists of pairs, into dicts. ``type_``: the value's
    type.
    """
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
    """Returns the rows for display. A column with times that Python's datetime cannot represent shows all its times as
    texts.
    """
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
    """Maintains the current rows of a changelog. The first column of the changes is the row kind.

    ``key``: positions of key columns, not counting the row kind. A change replaces the row with the same key, which
    keeps its position. Without a key the table is a multiset: -U and -D remove one equal row.
    """

    def __init__(self, key: Sequence[int] = ()) -> None:
        self._key = [str(position) for position in key]
        self._rows: pa.Table | None = None

    def apply(self, changes: pa.Table) -> pa.Table:
        """Applies changes and returns the current rows, oldest first, without the row kind."""
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


def _arrow_type(type_: DataType) -> pa.DataType:
    """The type of a column without rows: that of NULL where only Spark knows it."""
    try:
        return type_.to_arrow()
    except TypeError:
        return pa.null()


class Query:
    """A running query: an iterator over its rows, which arrive while it runs. Each row is delivered once.

    Iteration, ``fetchmany``, ``batches``, ``to_arrow`` and the other methods all consume the same stream of rows. Rows
    of an updating query have their kind (+I, -U, +U, -D) in the first column, ``op``; ``table`` and ``tables`` apply
    these changes. ``key``: positions of the columns, not counting ``op``, by which changes replace rows. TIMESTAMP
    values are in ``time_zone``. ``find_no_text`` looks for the place of a STRING that is not UTF-8, of which there is
    one in the rows, and returns its error, or None where it does not find it; not given, nobody looks at texts.
    """

    def __init__(
        self,
        job: Job | BatchRun,
        columns: Columns,
        time_zone: str,
        *,
        updating: bool = False,
        key: Sequence[int] = (),
        find_no_text: Callable[[], SqlStreamError | None] | None = None,
    ) -> None:
        self.job = job
        self.columns = tuple(name for name, _ in columns)
        self.types = tuple(type_ for _, type_ in columns)
        self.is_updating = updating
        self._key = tuple(key)
        self._time_zone = time_zone
        self._find_no_text = find_no_text
        self._incoming = job.results()
        self._table: pa.Table | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._position = 0

    def batches(self) -> Iterator[pa.Table]:
        """Yields the rows as they arrive, one Arrow table per micro-batch, until the query ends. Raises the query's
        error.
        """
        if self._table is not None and self._position < len(self._rows):
            rest, self._position = self._table.slice(self._position), len(self._rows)
            yield rest
        for table in self._incoming:
            yield self._checked(table)

    def _checked(self, table: pa.Table) -> pa.Table:
        """The rows that have arrived. Spark does not look at texts of files that it reads itself."""
        find = self._find_no_text
        if find is not None and not has_texts(table) and (error := find()) is not None:
            raise error
        return in_time_zone(table, self._time_zone)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        while self._position >= len(self._rows):
            self._table = self._checked(next(self._incoming))
            self._rows, self._position = rows_of(self._table), 0
        self._position += 1
        return self._rows[self._position - 1]

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the columns by which changes replace rows; empty where changes insert and retract whole rows."""
        return tuple(self.columns[position + 1] for position in self._key)

    def changes(self) -> Iterator[tuple[RowKind, tuple[Any, ...]]]:
        """Yields pairs of row kind and row. Rows of a query that is not updating are inserts."""
        return ((RowKind(row[0]), row[1:]) if self.is_updating else (RowKind.INSERT, row) for row in self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Waits for the next row and returns it; None if the query has ended."""
        return next(self, None)

    def fetchmany(self, count: int) -> list[tuple[Any, ...]]:
        """Waits for the next ``count`` rows and returns them; fewer if the query ends."""
        return list(islice(self, count))

    def rows(self) -> Rows:
        """Waits until the query ends and returns all rows. For an updating query these are all changes, with their
        kinds.

        Raises ExecutionError SS480 where the query never ends.
        """
        self._require_end()
        tables = list(self.batches())
        return ArrowRows.of(pa.concat_tables(tables) if tables else self._empty())

    def table(self) -> Rows:
        """Waits until the query ends and returns its final table: for an updating query with all changes applied, else
        all rows.

        Raises ExecutionError SS480 where the query never ends.
        """
        if not self.is_updating:
            return self.rows()
        self._require_end()
        last = self._empty().remove_column(0)
        for table in self.tables():
            last = table
        return ArrowRows.of(last)

    def tables(self) -> Iterator[pa.Table]:
        """Yields the current table after each micro-batch that changes it. Rows that other methods have already read
        are not in it.

        For an updating query the changes are applied and ``op`` is left out; a row that a change replaces by ``key``
        keeps its position. For other queries the table grows.
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
        arrays = [pa.array([], _arrow_type(type_)) for type_ in self.types]
        return pa.Table.from_arrays(arrays, names=list(self.columns))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Waits until the query ends and returns all rows as tuples. Raises ExecutionError SS480 where it never
        ends.
        """
        return self.rows().fetchall()

    def to_arrow(self) -> pa.Table:
        """Waits until the query ends and returns all rows as an Arrow table. Raises ExecutionError SS480 where it
        never ends.
        """
        return self.rows().to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, which ``polars.DataFrame``, ``pyarrow.table`` and others take;
        they arrive while it is read. Raises ExecutionError SS480 where the query never ends.
        """
        self._require_end()
        tables = self.batches()
        first = next(tables, None)
        if first is None:
            first = self._empty()
        following = (batch for table in tables for batch in table.to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, chain(first.to_batches(), following))
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Waits until the query ends and returns all rows as a pandas DataFrame. Raises ExecutionError SS480 where it
        never ends.
        """
        return self.rows().to_pandas()

    def show(self, count: int = SHOWN) -> None:
        """Waits for the next ``count`` rows and prints them as a table."""
        sys.stdout.write(text_table(self.columns, self.fetchmany(count), count) + "\n")

    def stop(self) -> None:
        """Stops the query."""
        self.job.stop()

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Query {self.job.name} {self.job.state.value}: {', '.join(self.columns)}>"
