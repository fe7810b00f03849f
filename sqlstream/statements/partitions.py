"""Partitions of tables on this machine, which are folders: SHOW PARTITIONS, ADD and DROP PARTITION."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlglot import exp

from sqlstream.catalog import Catalog
from sqlstream.connectors.connector import PATH_ERROR
from sqlstream.connectors.files.sink import newest_folder
from sqlstream.connectors.files.tables import local_path
from sqlstream.errors import BindError, ConnectorError, ExecutionError, Span, UnsupportedError, repeating
from sqlstream.grammar import nodes
from sqlstream.planner.binder.inserts import NO_PARTITIONS, partitions_of
from sqlstream.planner.catalog import Table, View
from sqlstream.udfs.files.directories import NO_PARTITION, escaped
from sqlstream.udfs.files.sink_log import LOG, logged_lines

ELSEWHERE = "SS358"


def partitions(statement: nodes.Show, catalog: Catalog) -> list[str]:
    """The partitions of a table, sorted, as texts such as ``day=2024-01-31/hour=7``. With PARTITION in the statement,
    only those with its values.
    """
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
    """The folder that contains the partitions of a table.

    BindError SS295 where the table has no partitions; UnsupportedError SS358 where its files are not on this machine.
    ``at``: the place in the SQL text that these errors show.
    """
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
    """Raises BindError SS295 if the table is not partitioned by the column that ``value`` names. ``columns``: the
    partition columns of the table.
    """
    if value.column.casefold() not in {name.casefold() for name in columns}:
        message = f'"{value.column}" is no partition column of table "{table.name}"'
        raise BindError(NO_PARTITIONS, message, value.span, hint=f"They are {', '.join(columns)}.")


def text_of_value(value: nodes.PartitionValue) -> str | None:
    """The value of a PARTITION clause as text, as it is spelled in the name of a partition's folder; None if the clause
    names only the column.
    """
    expression = value.value
    if expression is None:
        return None
    if isinstance(expression, exp.Neg):
        return f"-{expression.this.name}"
    return expression.name or expression.sql(dialect="spark")


def partition_folders(root: Path, columns: list[str]) -> list[str]:
    """The folders of all partitions, as paths relative to the root."""
    folders = sorted(root.glob("/".join(f"{_escaped(name)}=*" for name in columns))) if root.is_dir() else []
    return [folder.relative_to(root).as_posix() for folder in folders if folder.is_dir()]


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _fits(name: str, wanted: dict[str, str | None]) -> bool:
    values = {key.casefold(): unquote(value) for key, _, value in (part.partition("=") for part in name.split("/"))}
    return all(value is None or values.get(key) == value for key, value in wanted.items())


# --- ADD and DROP PARTITION -----------------------------------------------------------------------------------


WRONG_CHANGE = "SS249"
KEPT_BY_A_JOB = repeating("SS434")

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})

Values = dict[str, str]
"""The texts of a partition's values by column, as Spark writes them."""


def partition_names(change: nodes.ChangePartitions, table: Table, at: Span | None) -> list[Values]:
    """The partitions that the statement names, as dictionaries of values by column. The disk is not read.

    BindError SS295 where a column is not one that the table is partitioned by.
    """
    root_of_partitions(table, at)
    columns = partitions_of(table)
    found = []
    for partition in change.partitions:
        if partition.options:
            message = "options of a partition are not kept"
            hint = "Partitions are folders, which have no options: leave WITH out."
            raise UnsupportedError(ELSEWHERE, message, partition.options[0].span, hint=hint)
        for value in partition.values:
            require_partition(value, columns, table)
        given = {value.column.casefold(): value for value in partition.values if value.value is not None}
        missing = [name for name in columns if name.casefold() not in given]
        if missing:
            message = f"the partition has no value of {', '.join(missing)}"
            raise BindError(NO_PARTITIONS, message, partition.span, hint="Give all partition columns a value.")
        found.append({name: _text(given[name.casefold()], name, table) for name in columns})
    return found


def partition_texts(values: Iterable[nodes.PartitionValue], table: Table) -> dict[str, str | None]:
    """The values of a PARTITION clause by column, as texts; None for NULL. Columns without a value are left out.

    An empty text is one of its own here: not all connectors have it as NULL.
    """
    names = {name.casefold(): name for name in partitions_of(table)}
    given = {names[value.column.casefold()]: value for value in values if value.value is not None}
    return {name: _text_or_null(value, name, table) for name, value in given.items()}


def change_partitions(statement: nodes.AlterTable, table: Table) -> None:
    """Makes or removes the folders of the partitions that ALTER TABLE adds or drops; does nothing for other changes of
    the table.

    BindError SS249 where a partition to add exists already, or one to drop does not. ExecutionError SS434 where files
    of a partition to drop are listed in the log of the job that wrote them, whose readers would miss them.
    """
    change = statement.change
    if not isinstance(change, nodes.ChangePartitions):
        return
    root = root_of_partitions(table, statement.name.span)
    for partition, values in zip(change.partitions, partition_names(change, table, None), strict=True):
        folders = _folders_of(root, values, table)
        name = _name(values)
        if change.adds:
            if folders and not change.if_needed:
                message, hint = f'the table has a partition "{name}" already', "Write ADD IF NOT EXISTS PARTITION."
                raise BindError(WRONG_CHANGE, message, partition.span, hint=hint)
            if not folders:
                _make(root / name, table)
        elif not folders and not change.if_needed:
            message, hint = f'the table has no partition "{name}"', "Write DROP IF EXISTS PARTITION."
            raise BindError(WRONG_CHANGE, message, partition.span, hint=hint)
        for folder in folders if not change.adds else ():
            _remove(folder, root, table)


def _text(value: nodes.PartitionValue, column: str, table: Table) -> str:
    """The text as it is in the name of a folder."""
    return _text_or_null(value, column, table) or NO_PARTITION


def _text_or_null(value: nodes.PartitionValue, column: str, table: Table) -> str | None:
    kind = next(c.type.name for c in table.columns if c.name == column)
    expression = value.value
    while isinstance(expression, exp.Cast | exp.Paren):
        expression = expression.this
    number = expression.this if isinstance(expression, exp.Neg) else expression
    if isinstance(expression, exp.Null):
        return None
    if not isinstance(number, exp.Literal | exp.Boolean):
        message = f'the value of "{column}" is no constant'
        raise BindError(NO_PARTITIONS, message, value.span, hint="Write a text, a number, a date, TRUE, FALSE or NULL.")
    text = str(number.this) if number is expression else f"-{number.this}"
    try:
        return None if text == NO_PARTITION else _canonical(text, kind)
    except ValueError:
        message = f'"{text}" is no value of "{column}", which is of type {kind}'
        raise BindError(NO_PARTITIONS, message, value.span) from None


def _canonical(text: str, kind: str) -> str:
    """The text that Spark writes for a value; ValueError where it is none of the type."""
    if kind in _WHOLE and text != NO_PARTITION:
        return str(int(text))
    if kind == "DATE" and text != NO_PARTITION:
        return date.fromisoformat(text).isoformat()
    return text.lower() if kind == "BOOLEAN" else text


def _name(values: Values) -> str:
    return "/".join(f"{escaped(name)}={escaped(value)}" for name, value in values.items())


def _folders_of(root: Path, values: Values, table: Table) -> list[Path]:
    """The folders with these values: 07 and 7 are one INT."""
    kinds = {c.name: c.type.name for c in table.columns}

    def is_same(part: str) -> bool:
        name, _, text = part.partition("=")
        column = next((c for c in values if c.casefold() == unquote(name).casefold()), None)
        try:
            return column is not None and _canonical(unquote(text), kinds[column]) == values[column]
        except ValueError:
            return False

    names = partition_folders(root, [*values])
    return [root / name for name in names if all(is_same(part) for part in name.split("/"))]


def _make(folder: Path, table: Table) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, table, error) from None


def _remove(folder: Path, root: Path, table: Table) -> None:
    if folder.is_symlink() or not folder.resolve().is_relative_to(root.resolve()):
        message = f'"{folder}" of table "{table.name}" leads out of the folder of the table'
        raise ConnectorError(PATH_ERROR, message, hint="Remove the files where they are.")
    if newest_folder(root) is not None or any(_is_below(line, folder) for line in logged_lines(root)):
        message = f'partition "{folder.relative_to(root)}" of table "{table.name}" holds files that a job counts'
        detail = f'The log "{LOG}" of the job that wrote them says which files are read, and these would be missing.'
        hint = (
            "INSERT OVERWRITE t PARTITION (…) SELECT … WHERE FALSE, for finished data, writes the table anew without "
            "the rows of the partition."
        )
        raise ExecutionError(KEPT_BY_A_JOB, message, detail=detail, hint=hint)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise _unusable(folder, table, error) from None


def _is_below(line: str, folder: Path) -> bool:
    """Whether the entry of a log is of a file in the folder."""
    path = Path(unquote(urlsplit(str(json.loads(line)["path"])).path))
    return path.resolve().is_relative_to(folder.resolve())


def _unusable(folder: Path, table: Table, error: OSError) -> ConnectorError:
    message = f'"{folder}" of table "{table.name}" cannot be changed: {error.strerror or error}'
    return ConnectorError(PATH_ERROR, message)
