"""SHOW PARTITIONS: the folders of partitions that a table has."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from sqlglot import exp

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.binder.partitions import NO_PARTITIONS, partitions_of
from sqlstream.planner.catalog import Table

ELSEWHERE = "SS358"


def partitions(statement: nodes.Show, catalog: Catalog) -> list[str]:
    """``day=2024-01-31/hour=7``, sorted; with PARTITION those that have these values."""
    from sqlstream.connectors.filesystem import local_path

    assert statement.name is not None
    table = catalog.required(statement.name)
    columns = partitions_of(table) if isinstance(table, Table) else []
    if not isinstance(table, Table) or table.connector != "filesystem" or not columns:
        hint = "CREATE TABLE … PARTITIONED BY (…) of the connector filesystem makes some."
        raise BindError(NO_PARTITIONS, f'table "{table.name}" has no partitions', statement.name.span, hint=hint)
    path = local_path(table.option("path") or "")
    if path is None:
        message = f'partitions of table "{table.name}", which is not on this machine, are not listed'
        raise UnsupportedError(ELSEWHERE, message, statement.name.span, hint="SELECT DISTINCT its partition columns.")
    wanted = {value.column.casefold(): text_of_value(value) for value in statement.partition}
    for value in statement.partition:
        if value.column.casefold() not in {name.casefold() for name in columns}:
            message = f'"{value.column}" is no partition column of table "{table.name}"'
            raise BindError(NO_PARTITIONS, message, value.span, hint=f"They are {', '.join(columns)}.")
    names = _folders(Path(path), columns)
    return [name for name in names if _fits(name, wanted)]


def text_of_value(value: nodes.PartitionValue) -> str | None:
    """The value as the name of a folder has it; None where PARTITION gives none."""
    expression = value.value
    if expression is None:
        return None
    if isinstance(expression, exp.Neg):
        return f"-{expression.this.name}"
    return expression.name or expression.sql(dialect="spark")


def _folders(root: Path, columns: list[str]) -> list[str]:
    folders = sorted(root.glob("/".join(f"{_escaped(name)}=*" for name in columns))) if root.is_dir() else []
    return [folder.relative_to(root).as_posix() for folder in folders if folder.is_dir()]


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _fits(name: str, wanted: dict[str, str | None]) -> bool:
    values = {key.casefold(): unquote(value) for key, _, value in (part.partition("=") for part in name.split("/"))}
    return all(value is None or values.get(key) == value for key, value in wanted.items())
