"""The state of a materialized view beside its job: ``view.json`` in the job's checkpoint, and the rows of its table."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sqlstream.connectors import TruncatableTable, connector
from sqlstream.connectors.filesystem import local_path
from sqlstream.connectors.upsert_files import ROWS, is_foreign
from sqlstream.grammar import nodes, to_sql
from sqlstream.jobs.checkpoints.own_files import VIEW as FILE
from sqlstream.jobs.checkpoints.storage import Storage, damaged
from sqlstream.jobs.records.record import Process
from sqlstream.planner.catalog import Table
from sqlstream.udfs.texts import json_of


@dataclass(frozen=True)
class ViewState:
    """``definition`` tells definitions apart. ``suspended``: nobody starts the job until RESUME. ``keeper`` is the
    process of ``sqlstream serve`` that starts it, where there is one."""

    definition: str
    suspended: bool = False
    keeper: Process | None = None

    @property
    def kept(self) -> bool:
        """True while a process looks after the view."""
        return self.keeper is not None and self.keeper.is_here and self.keeper.is_alive


def digest_of(statement: nodes.CreateMaterializedView) -> str:
    """The same for definitions that make the same table of the same rows."""
    plain = replace(statement, kind="MATERIALIZED VIEW", if_not_exists=False, replace=False, comment=None)
    return hashlib.sha256(to_sql(plain).encode()).hexdigest()


def read_state(storage: Storage) -> ViewState | None:
    """ExecutionError SS459 for a file that is none of ours."""
    text = storage.read(FILE)
    if text is None:
        return None
    try:
        values = json_of(text)
        keeper = values["keeper"]
        return ViewState(
            str(values["definition"]), bool(values["suspended"]), None if keeper is None else Process(**keeper)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(storage.location(FILE), f"It does not tell of a materialized view: {error}.") from error


def write_state(storage: Storage, state: ViewState) -> None:
    """Write ``view.json`` to the checkpoint."""
    storage.write(FILE, json.dumps(asdict(state), indent=1))


# --- Tables of views, as far as connectors differ --------------------------------------------------------------


def is_there(table: Table) -> bool:
    """Whether rows of somebody, or of an earlier view, are where the view is to be kept."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import is_stored  # psycopg is optional

        return is_stored(table)
    local = local_path(table.option("path") or "")
    return local is not None and Path(local).is_dir() and any(Path(local).iterdir())


def is_ours(table: Table) -> bool:
    """Whether a job of sqlstream has written there: what it finds in the place of a new view may go only then."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import was_written  # psycopg is optional

        return was_written(table)
    local = local_path(table.option("path") or "")
    if local is None or not Path(local).is_dir():
        return False
    now = (Path(local) / ROWS).is_file() and not is_foreign(Path(local))
    return now or (Path(local) / "_spark_metadata").is_dir()


def remove(table: Table) -> None:
    """Drop the table in the database, or empty its directory."""
    if table.connector == "postgres":
        from sqlstream.connectors.postgres import remove_stored  # psycopg is optional

        return remove_stored(table)
    kind = connector(table.connector)
    assert isinstance(kind, TruncatableTable), table.connector
    kind.truncate(Path(), table)
    return None
