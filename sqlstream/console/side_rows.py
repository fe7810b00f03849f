"""Rows that a job could not use, to look at: the newest rows of the tables that take bad, late and failed rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.files.checks import newest_files
from sqlstream.connectors.files.tables import local_path
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import dead_letter_tables
from sqlstream.udfs.texts import reason_of

MOST_ROWS = 20
_MOST_FILES = 5
_TAIL_BYTES = 1 << 18
_LONGEST_VALUE = 300


@dataclass(frozen=True)
class SideRows:
    """The newest rows of a table. ``what``: which rows it takes. ``reason``: why no rows are shown; None where they
    are.
    """

    table: str
    what: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    reason: str | None = None


def side_rows(plan: Node) -> tuple[SideRows, ...]:
    """Returns the newest rows of each table that a plan writes beside its result, as they are in the files now."""
    tables = {table.name: (table, "bad rows") for table in dead_letter_tables(plan)}
    for node in plan.walk():
        if node.side_table is not None:
            tables.setdefault(node.side_table.name, (node.side_table, node.side_rows))
    return tuple(_rows_of(table, what) for table, what in tables.values())


def _rows_of(table: Table, what: str) -> SideRows:
    columns = tuple(column.name for column in table.physical_columns)
    try:
        rows = _newest(table, columns)
    except _NotShown as reason:
        return SideRows(table.name, what, columns, reason=str(reason))
    except (OSError, ValueError, pa.ArrowException) as error:
        return SideRows(table.name, what, columns, reason=f"its files cannot be read: {reason_of(error)}")
    return SideRows(table.name, what, columns, tuple(rows))


class _NotShown(Exception):
    pass


def _newest(table: Table, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The newest rows, the newest first."""
    if table.connector != "filesystem":
        raise _NotShown(f'read them with a query of the table, whose connector is "{table.connector}"')
    folder, kind = local_path(table.option("path") or ""), (table.option("format") or "parquet").strip().lower()
    if folder is None or not Path(folder).is_absolute():
        raise _NotShown("read them with a query of the table: its path is no absolute one of this machine")
    if kind not in _READERS:
        raise _NotShown(f'read them with a query of the table, whose format is "{kind}"')
    rows: list[tuple[str, ...]] = []
    for file in newest_files([Path(folder)], _MOST_FILES):
        of_file = list(_READERS[kind](file, columns))
        rows += reversed(of_file[-(MOST_ROWS - len(rows)) :])
        if len(rows) >= MOST_ROWS:
            break
    return rows


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    file = pq.ParquetFile(path)
    if not file.num_row_groups:
        return
    group = file.read_row_group(file.num_row_groups - 1, [name for name in columns if name in file.schema_arrow.names])
    for row in group.slice(max(0, group.num_rows - MOST_ROWS)).to_pylist():
        yield tuple(shown_text(row.get(name)) for name in columns)


def _json(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for line in _last_lines(path):
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"a line is no object of JSON: {shown_text(row)}")
        yield tuple(shown_text(row.get(name)) for name in columns)


def _last_lines(path: Path) -> Iterable[str]:
    """The last lines of a file, of which only the end is read."""
    if path.suffix in (".gz", ".bz2", ".zst", ".xz", ".lz4", ".snappy", ".deflate"):
        raise _NotShown("read them with a query of the table: its files are compressed")
    with path.open("rb") as file:
        begin = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
        file.seek(begin)
        lines = file.read().decode("utf-8", "replace").split("\n")  # texts may have other line ends
    return [line for line in (lines[1:] if begin else lines) if line.strip()][-MOST_ROWS:]


def shown_text(value: object) -> str:
    """A value as it is shown; long ones are cut."""
    text = "NULL" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


_READERS = {"parquet": _parquet, "json": _json}
