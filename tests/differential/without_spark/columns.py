"""Columns of rows between steps: their kinds, names and types; SQL of DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.node import Node
from sqlstream.types import DataType
from sqlstream.udfs.kernel import EMITTED_AHEAD, ROW_KIND


def arrow_type(kind: DataType) -> pa.DataType:
    if kind.is_unknown:
        raise NotHere("a type that only Spark knows")
    return kind.to_arrow()


def sql_of(expression: exp.Expression) -> str:
    return expression.sql("duckdb")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def named(rows: pa.Table) -> pa.Table:
    """DuckDB knows no table without columns."""
    return rows if rows.num_columns else rows.append_column("nothing", pa.nulls(rows.num_rows))


def kinds_of(rows: pa.Table) -> pa.ChunkedArray:
    if ROW_KIND in rows.column_names:
        return rows.column(ROW_KIND)
    return pa.chunked_array([pa.array(["+I"] * rows.num_rows, pa.string())])


def kind_items(below: Node, rows: pa.Table) -> list[tuple[str, str]]:
    if below.changelog_mode == APPEND_ONLY:
        return []
    return [(ROW_KIND, quoted(ROW_KIND) if ROW_KIND in rows.column_names else "'+I'")]


def renamed(rows: pa.Table, fields: Sequence[tuple[str, str]]) -> pa.Table:
    kinds = [(ROW_KIND, ROW_KIND)] if ROW_KIND in rows.column_names else []
    both = [*fields, *kinds]
    return pa.table([rows.column(own) for _, own in both], names=[name for name, _ in both])


def numbered(below: Node, rows: pa.Table, *, kinds: bool = False) -> tuple[pa.Table, dict[str, str]]:
    """The fields of an operator's input under names of the kernel, and these names by field."""
    fields = {f.name: f"__field_{i}" for i, f in enumerate(below.schema)}
    found = pa.table([rows.column(name) for name in fields], names=list(fields.values()))
    if kinds or below.changelog_mode != APPEND_ONLY:
        found = found.append_column(ROW_KIND, kinds_of(rows))
    return found, fields


def micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())


def ahead(rows: pa.Table) -> pa.Table:
    return rows.append_column(EMITTED_AHEAD, pa.array([True] * rows.num_rows, pa.bool_()))


class NoFunctions:
    """A runtime without functions of users."""

    def function(self, name: str) -> None:
        return None


class NotHere(Exception):
    """The plan has a step that only Spark runs."""
