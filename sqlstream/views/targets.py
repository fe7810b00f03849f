"""The tables that views are kept in, as far as their connectors differ."""

from __future__ import annotations

from pathlib import Path

from sqlstream.connectors import TruncatableTable, connector
from sqlstream.connectors.filesystem import local_path
from sqlstream.connectors.upsert_files import ROWS, is_foreign
from sqlstream.planner.catalog import Table


def is_there(table: Table) -> bool:
    """Whether rows of somebody, or of an earlier view, are where the view is to be kept."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import is_stored

        return is_stored(table)
    local = local_path(table.option("path") or "")
    return local is not None and Path(local).is_dir() and any(Path(local).iterdir())


def is_ours(table: Table) -> bool:
    """Whether a job of sqlstream has written there: what it finds in the place of a new view may go only then."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import was_written

        return was_written(table)
    local = local_path(table.option("path") or "")
    if local is None or not Path(local).is_dir():
        return False
    now = (Path(local) / ROWS).is_file() and not is_foreign(Path(local))
    return now or (Path(local) / "_spark_metadata").is_dir()


def remove(table: Table) -> None:
    """Drop the table in the database, or empty its directory."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import remove_stored

        return remove_stored(table)
    kind = connector(table.connector)
    assert isinstance(kind, TruncatableTable), table.connector
    kind.truncate(Path(), table)
    return None
