"""Finished results for the caller, and tables and times for the eye."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.nodes import Output
from sqlstream.types import STRING, DataType

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

KIND = "op"
"""What callers call the kinds of rows of updating queries; Flink's client does, too."""


SHOWN = 20


Columns = tuple[tuple[str, DataType], ...]
"""Names, which may repeat, and types."""


def columns_of(plan: Output) -> Columns:
    """Returns the columns of a query's result as pairs of name and type. For an updating query the first column is the
    row kind.
    """
    kind = () if plan.changelog_mode == APPEND_ONLY else ((KIND, STRING),)
    return (*kind, *((name, field.type) for name, field in zip(plan.names, plan.schema, strict=True)))


def key_of(plan: Output) -> tuple[int, ...]:
    """Returns the positions of the columns by which changes of the result replace rows; empty if they do not.

    If the query has several such keys, the smallest is taken.
    """
    if plan.changelog_mode == APPEND_ONLY:
        return ()
    keys = sorted(plan.upsert_keys, key=lambda key: (len(key), sorted(key)))
    return tuple(position for position, f in enumerate(plan.schema) if keys and f.name in keys[0])


@dataclass(frozen=True)
class Rows:
    """A finished result, as SHOW, DESCRIBE, EXPLAIN and CREATE return it. Results of queries are of the subclass
    ``ArrowRows``.

    ``columns``: the column names, which may repeat.
    """

    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    _rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of_text(cls, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Rows:
        """Creates a result whose columns are all of type STRING."""
        return cls(tuple(columns), (STRING,) * len(columns), tuple(tuple(row) for row in rows))

    @cached_property
    def _fetched(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all rows as tuples of Python values."""
        return list(self._fetched)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Returns the next row at each call; None after the last one."""
        return next(self._following, None)

    def fetchmany(self, count: int) -> list[tuple[Any, ...]]:
        """Returns the next ``count`` rows; fewer at the end. Only this and ``fetchone`` go on where the last one
        stopped, the other methods return all rows.
        """
        return list(islice(self._following, count))

    @cached_property
    def _following(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._fetched)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._fetched)

    def __len__(self) -> int:
        return len(self._rows)

    def to_arrow(self) -> pa.Table:
        """Returns the rows as an Arrow table."""
        import pyarrow as pa  # takes a fifth of a second, which statements without rows of Arrow do not pay for

        columns = list(zip(*self._rows, strict=True)) or [() for _ in self.columns]
        arrays = [pa.array(values, type_.to_arrow()) for values, type_ in zip(columns, self.types, strict=True)]
        return pa.Table.from_arrays(arrays, names=list(self.columns))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface, which ``polars.DataFrame``, ``pyarrow.table`` and others
        take.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Returns the rows as a pandas DataFrame. DECIMAL values are ``Decimal``; TIMESTAMP columns have a time
        zone.
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def shown(self) -> list[tuple[Any, ...]]:
        """Returns the rows for display. Times that Python's datetime cannot represent are texts."""
        return list(self._rows)

    def __repr__(self) -> str:
        return text_table(self.columns, self.shown())

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.shown())


# --- tables for the eye ---------------------------------------------------------------------------------------


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: int = SHOWN) -> str:
    """Formats rows as a text table with a header, and the number of rows below. Only the first ``shown`` rows are
    printed.
    """
    cells = [[_text(value) for value in row] for row in rows[:shown]]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *cells)
    ]
    rule = "-+-".join("-" * width for width in widths)
    return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:], _count(len(rows), shown)))


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], shown: int = SHOWN) -> str:
    """Formats rows as an HTML table for notebooks, with the number of rows below. Only the first ``shown`` rows are
    included.
    """
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


# --- times for the eye, in UTC --------------------------------------------------------------------------------


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(time: datetime) -> str:
    """Formats a time, to the second: ``2026-11-25 12:00:00``."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def exact_text(ms: int) -> str:
    """Formats a time given in milliseconds since 1970 (UTC), with milliseconds unless they are 0."""
    return watermark_text(ms) + (f".{ms % 1000:03}" if ms % 1000 else "")


def latency_text(latency_ms: Sequence[int]) -> str:
    """The ages of ``Progress.latency_ms`` as text."""
    median, most_of_all, most = latency_ms
    return f"{median:,} ms, 99 % within {most_of_all:,} ms, at most {most:,} ms"


def watermark_text(watermark_ms: int | None) -> str:
    """Formats a watermark, given in milliseconds since 1970 (UTC). None: "none yet"; a value that is not a date:
    "beyond year 9999".
    """
    if watermark_ms is None:
        return "none yet"
    try:
        return time_text(_EPOCH + timedelta(milliseconds=watermark_ms))
    except OverflowError:
        return "beyond year 9999"


def moment(seconds: float) -> datetime:
    """Converts seconds since 1970 into a ``datetime`` in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
