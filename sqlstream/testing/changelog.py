"""Changelogs: rows with their kinds, and the table that they amount to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.testing.values import from_arrow
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa

Change = tuple[Any, ...]
"""A row kind (``+I``, ``-U``, ``+U``, ``-D``) followed by the values of the row."""

Row = tuple[Any, ...]

KINDS = ("+I", "-U", "+U", "-D")
_ADDS = ("+I", "+U")


def changes_of(rows: pa.Table, types: Sequence[DataType]) -> list[Change]:
    """The rows of a micro-batch with their kinds, which are all +I where the rows have none. ExecutionError SS469 for
    times that Python's datetime does not have."""
    kinds = ["+I"] * rows.num_rows
    if ROW_KIND in rows.column_names:
        kinds = rows.column(ROW_KIND).to_pylist()
        rows = rows.drop_columns([ROW_KIND])
    columns = [
        [from_arrow(v, type_) for v in python_list(column, f'a value of column "{name}"')]
        for name, column, type_ in zip(rows.column_names, rows.columns, types, strict=True)
    ]
    return list(zip(kinds, *columns, strict=True))


def merge(changes: Iterable[Change], key: Sequence[int] | None = None) -> list[Row]:
    """The rows that are left when all changes are applied in order, oldest first.

    ``key`` are the positions of the key's columns: a row replaces the one with its key. Without a key, equal rows
    are counted, and a retracted row takes one of them away; ValueError where there is none.
    """
    return _counted(changes) if key is None else list(_keyed(changes, key).values())


def _counted(changes: Iterable[Change]) -> list[Row]:
    rows: list[Row] = []
    for kind, *values in changes:
        if kind in _ADDS:
            rows.append(tuple(values))
        elif tuple(values) in rows:
            rows.remove(tuple(values))
        else:
            raise ValueError(f"{kind} {tuple(values)} withdraws a row that is not there")
    return rows


def _keyed(changes: Iterable[Change], key: Sequence[int]) -> dict[tuple[str, ...], Row]:
    rows: dict[tuple[str, ...], Row] = {}
    for kind, *values in changes:
        name = tuple(repr(values[i]) for i in key)  # arrays and structs are keys too, but not hashable
        if kind in _ADDS:
            rows[name] = tuple(values)
        else:
            rows.pop(name, None)
    return rows
