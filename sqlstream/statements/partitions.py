"""SHOW PARTITIONS: the folders of partitions that a table has."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from sqlglot import exp

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, Span, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.binder.inserts import NO_PARTITIONS, partitions_of
from sqlstream.planner.catalog import Table, View

ELSEWHERE = "SS358"


def partitions(statement: nodes.Show, catalog: Catalog) -> list[str]:
    """``day=2024-01-31/hour=7``, sorted; with PARTITION those that have these values."""
    assert statement.name is not None
    table = catalog.required(statement.name)
    root = root_of_partitions(table, statement.name.span)
    assert isinstance(table, Table)
    columns = partitions_of(table)
    wanted = {value.column.casefold(): text_of_value(value) for value in statement.partition}
    for value in statement.partition:
        require_partition(value, columns, table)
    return [name for name in partition_folders(root, columns) if _fits(name, wanted)]


def root_of_partitions(table: Table | View, at: Span | None) -> Path:
    """The folder with the partitions of a table. BindError SS295 where it has none; SS358 elsewhere."""
    from sqlstream.connectors.file_tables import local_path

    if not isinstance(table, Table) or table.connector != "filesystem" or not partitions_of(table):
        hint = "CREATE TABLE … PARTITIONED BY (…) of the connector filesystem makes some."
        raise BindError(NO_PARTITIONS, f'table "{table.name}" has no partitions', at, hint=hint)
    path = local_path(table.option("path") or "")
    if path is None:
        message = f'partitions of table "{table.name}", which is not on this machine, are not known'
        hint = "SELECT DISTINCT its partition columns; INSERT makes partitions."
        raise UnsupportedError(ELSEWHERE, message, at, hint=hint)
    return Path(path)


def require_partition(value: nodes.PartitionValue, columns: list[str], table: Table) -> None:
    """BindError SS295 where the column is no partition."""
    if value.column.casefold() not in {name.casefold() for name in columns}:
        message = f'"{value.column}" is no partition column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, value.span, hint=f"They are {', '.join(columns)}.")


def text_of_value(value: nodes.PartitionValue) -> str | None:
    """The value as the name of a folder has it; None where PARTITION gives none."""
    expression = value.value
    if expression is None:
        return None
    if isinstance(expression, exp.Neg):
        return f"-{expression.this.name}"
    return expression.name or expression.sql(dialect="spark")


def partition_folders(root: Path, columns: list[str]) -> list[str]:
    """The folders of all partitions, seen from the root."""
    folders = sorted(root.glob("/".join(f"{_escaped(name)}=*" for name in columns))) if root.is_dir() else []
    return [folder.relative_to(root).as_posix() for folder in folders if folder.is_dir()]


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _fits(name: str, wanted: dict[str, str | None]) -> bool:
    values = {key.casefold(): unquote(value) for key, _, value in (part.partition("=") for part in name.split("/"))}
    return all(value is None or values.get(key) == value for key, value in wanted.items())
