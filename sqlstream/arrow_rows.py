"""Rows of Arrow tables: as Python values, for the eye, in a time zone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.results import Rows
from sqlstream.types import from_arrow
from sqlstream.udfs.event_times import time_text
from sqlstream.udfs.texts import python_list

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
        """The rows for the eye: times that Python's datetime does not have are texts."""
        return shown_rows_of(self._table)


def in_time_zone(table: pa.Table, zone: str) -> pa.Table:
    """The table with its TIMESTAMPs, also nested ones, in the zone; the instants stay the same."""
    fields = [f.with_type(from_arrow(f.type).to_arrow(zone)) if _has_zone(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields)) if any(_has_zone(f.type) for f in table.schema) else table


def _has_zone(type_: pa.DataType) -> bool:
    return any(nested.name == "TIMESTAMP" for nested in from_arrow(type_).parts())


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table; MAPs are dicts and STRUCTs dicts by field. ExecutionError SS469 for times that
    Python's datetime does not have."""
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
    """A value as ``as_py`` gives it, whose MAPs are lists of pairs, with dicts in their place."""
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
    """The same for the eye: in columns with times that Python's datetime does not have, all times are texts."""
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
