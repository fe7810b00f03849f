"""The state of a materialized view beside its job: ``view.json`` in the job's checkpoint, and the rows of its table."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from sqlstream.connectors import ViewTable, connector
from sqlstream.grammar import nodes, to_sql
from sqlstream.jobs.checkpoints.own_files import VIEW as FILE
from sqlstream.jobs.checkpoints.storage import Storage, damaged
from sqlstream.jobs.records.record import Process
from sqlstream.planner.catalog import Table
from sqlstream.udfs.texts import json_of


@dataclass(frozen=True)
class ViewState:
    """What is stored about a materialized view next to its job's checkpoint. ``definition`` is a digest of its
    definition. ``suspended``: the job is not started until RESUME. ``keeper`` is the process of ``sqlstream serve``
    that restarts the job, None if there is none.
    """

    definition: str
    suspended: bool = False
    keeper: Process | None = None

    @property
    def kept(self) -> bool:
        """True while the process ``keeper``, which restarts the job, runs on this machine."""
        return self.keeper is not None and self.keeper.is_here and self.keeper.is_alive


def digest_of(statement: nodes.CreateMaterializedView) -> str:
    """Returns a digest of a view's definition. Definitions that differ only in comment, OR REPLACE and IF NOT EXISTS
    have equal ones.
    """
    plain = replace(statement, kind="MATERIALIZED VIEW", if_not_exists=False, replace=False, comment=None)
    return hashlib.sha256(to_sql(plain).encode()).hexdigest()


def read_state(storage: Storage) -> ViewState | None:
    """The state of a view from its checkpoint; None if there is none. Raises ExecutionError SS459 for a file that is
    malformed.
    """
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


# --- the tables that views are stored in ----------------------------------------------------------------------


def is_there(table: Table) -> bool:
    """True if rows, written by whomever, exist where the view is to be stored."""
    return _connector(table).is_there(table)


def is_ours(table: Table) -> bool:
    """True if a job of sqlstream wrote the stored rows. Only then may a new view replace them."""
    return _connector(table).is_ours(table)


def is_gone(table: Table) -> bool:
    """True if the table of a view that has been written was dropped by somebody else."""
    return _connector(table).is_gone(table)


def remove(table: Table) -> None:
    """Drop the table in the database, or empty its directory."""
    _connector(table).remove(table)


def _connector(table: Table) -> ViewTable:
    kind = connector(table.connector)
    assert isinstance(kind, ViewTable), table.connector
    return kind
