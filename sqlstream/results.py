"""Finished results for the caller, and tables for the eye."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.nodes import Output
from sqlstream.types import STRING, DataType, from_arrow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


KIND = "op"
"""What callers call the kinds of rows of updating queries; Flink's client does, too."""

_DAY_MICROS = 86_400_000_000

SHOWN = 20


Columns = tuple[tuple[str, DataType], ...]
"""Names, which may repeat, and types."""


def columns_of(plan: Output) -> Columns:
    """Names and types of what the caller of a query gets; rows of an updating query begin with their kinds."""
    kind = () if plan.changelog_mode == APPEND_ONLY else ((KIND, STRING),)
    return (*kind, *((name, field.type) for name, field in zip(plan.names, plan.schema, strict=True)))


def key_of(plan: Output) -> tuple[int, ...]:
    """The positions of the columns that changes of a result replace rows by: the fewest, where several sets do."""
    if plan.changelog_mode == APPEND_ONLY:
        return ()
    keys = sorted(plan.upsert_keys, key=lambda key: (len(key), sorted(key)))
    return tuple(position for position, f in enumerate(plan.schema) if keys and f.name in keys[0])


@dataclass(frozen=True)
class Rows:
    """A finished result: what SHOW, DESCRIBE, EXPLAIN and definitions return, and what a query has read.

    ``columns`` may repeat a name.
    """

    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    _rows: tuple[tuple[Any, ...], ...] = ()
    _table: pa.Table | None = field(default=None, compare=False)

    @classmethod
    def of_text(cls, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Rows:
        """Rows of texts."""
        return cls(tuple(columns), (STRING,) * len(columns), tuple(tuple(row) for row in rows))

    @classmethod
    def of_arrow(cls, table: pa.Table) -> Rows:
        """Rows of an Arrow table."""
        return cls(tuple(table.column_names), tuple(from_arrow(f.type) for f in table.schema), (), table)

    @cached_property
    def _fetched(self) -> list[tuple[Any, ...]]:
        return list(self._rows) if self._table is None else rows_of(self._table)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return list(self._fetched)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row."""
        return next(iter(self._fetched), None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._fetched)

    def __len__(self) -> int:
        return len(self._rows) if self._table is None else int(self._table.num_rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        if self._table is not None:
            return self._table
        import pyarrow as pa  # here and below: statements without rows of Arrow start without it

        columns = list(zip(*self._rows, strict=True)) or [() for _ in self.columns]
        arrays = [pa.array(values, type_.to_arrow()) for values, type_ in zip(columns, self.types, strict=True)]
        return pa.Table.from_arrays(arrays, names=list(self.columns))

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame: DECIMAL stays Decimal, TIMESTAMP a timestamp with zone, whatever the precision."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def shown(self) -> list[tuple[Any, ...]]:
        """The rows for the eye: times that Python's datetime does not have are texts."""
        return list(self._rows) if self._table is None else shown_rows_of(self._table)

    def __repr__(self) -> str:
        return text_table(self.columns, self.shown())

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.shown())


def in_time_zone(table: pa.Table, zone: str) -> pa.Table:
    """The table with its TIMESTAMPs, also nested ones, in the zone; the instants stay the same."""
    import pyarrow as pa

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
    import pyarrow as pa

    from sqlstream.udfs.texts import python_list

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
    import pyarrow as pa

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
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            try:
                _ = [bound.as_py() for bound in pc.min_max(column).values()]
            except OverflowError:
                table = table.set_column(index, name, _texts(column))
    return table


def _texts(times: pa.ChunkedArray) -> pa.Array:
    """TIMESTAMPs on the clock of their zone, or DATEs, of any year."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sqlstream.udfs.event_times import time_text

    if pa.types.is_date(times.type):
        days = times.cast(pa.int32()).to_pylist()
        return pa.array([None if day is None else time_text(day * _DAY_MICROS).partition(" ")[0] for day in days])
    wall = pc.local_timestamp(times) if times.type.tz is not None else times
    micros = wall.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return pa.array([None if time is None else time_text(time) for time in micros], pa.string())


# --- tables for the eye ---------------------------------------------------------------------------------------


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: int = SHOWN) -> str:
    """Columns side by side under their names; the number of rows below."""
    cells = [[_text(value) for value in row] for row in rows[:shown]]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *cells)
    ]
    rule = "-+-".join("-" * width for width in widths)
    return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:], _count(len(rows), shown)))


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: int = SHOWN) -> str:
    """The same for notebooks."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_text(value))}</td>" for value in row) + "</tr>" for row in rows[:shown]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{_count(len(rows), shown)}</p>"


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _count(count: int, shown: int) -> str:
    more = f", the first {shown} shown" if count > shown else ""
    return f"({count} row{'' if count == 1 else 's'}{more})"
