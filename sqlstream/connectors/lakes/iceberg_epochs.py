"""What an Iceberg table has of each checkpoint: properties with the number of its newest micro-batch.

Each job that begins with a new checkpoint adds one. Those of checkpoints that have committed nothing for long are
removed again, in a commit of another one. The table remembers when the last of them was written: a job that continues
from such a checkpoint is refused, because what it has written could be written again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors, open_table, require_pyiceberg
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

_EPOCH = "sqlstream.epoch."
_FORGOTTEN = "sqlstream.epochs-forgotten"
"""The property with the time, in ms since 1970, until which removed properties may have been written."""

RUN, NUMBER = "sqlstream.run", "sqlstream.epoch"
"""What the summary of a snapshot says: the checkpoint, and the micro-batch that it has committed."""

KEPT, MOST = 100, 1000
"""Of more properties than these, old ones are removed; of more than the second, the oldest ones."""

OLD_MS = 7 * 24 * 3600 * 1000
"""The age from which a property is old."""


def application(run: str) -> str:
    """The property of the table with the number of the newest micro-batch of a checkpoint."""
    return f"{_EPOCH}{run}"


def epoch_of(stored: IcebergTable, run: str) -> int | None:
    """The number of the newest micro-batch of a checkpoint that the table has; None if it has none."""
    number = stored.properties.get(application(run))
    return None if number is None else int(number)


def forgotten_until(stored: IcebergTable) -> datetime | None:
    """The time of the last commit of a checkpoint that the table has forgotten; None if there is none."""
    time_ms = stored.properties.get(_FORGOTTEN)
    return None if time_ms is None else datetime.fromtimestamp(int(time_ms) / 1000, UTC)


def opened_if_there(table: Table, identifier: str, storage: Mapping[str, str]) -> IcebergTable | None:
    """The Iceberg table; None where it need not be there yet."""
    require_pyiceberg()
    with iceberg_errors(table.name):
        there = catalog_of(storage).table_exists(identifier)
    return open_table(table.name, identifier, storage) if there else None


def properties_of_commit(stored: IcebergTable, run: str, number: int) -> dict[str, str | None]:
    """The properties that the commit of a micro-batch sets, or removes (None)."""
    own = application(run)
    others = {key for key in stored.properties if key.startswith(_EPOCH) and key != own}
    changed: dict[str, str | None] = {own: str(number)}
    if len(others) < KEPT:
        return changed
    times = _commit_times(stored)
    oldest = _oldest_of_all(stored)
    newest_first = sorted(others, key=lambda key: (times.get(key, oldest), key), reverse=True)
    limit = int(time.time() * 1000) - OLD_MS
    gone = [
        key for place, key in enumerate(newest_first, 1)
        if place >= MOST or (place >= KEPT and times.get(key, oldest) < limit)
    ]  # fmt: skip
    if gone:
        until = max(times.get(key, oldest) for key in gone)
        before = int(stored.properties.get(_FORGOTTEN, 0))
        changed |= {_FORGOTTEN: str(max(until, before)), **dict.fromkeys(gone)}
    return changed


def _oldest_of_all(stored: IcebergTable) -> int:
    """The time since which all snapshots are there, in ms since 1970: a checkpoint of which there is none has committed
    before. Older ones may be there as well, for a tag.
    """
    from pyiceberg.table.snapshots import ancestors_of

    chain = [snapshot.timestamp_ms for snapshot in ancestors_of(stored.current_snapshot(), stored.metadata)]
    return chain[-1] if chain else 0


def _commit_times(stored: IcebergTable) -> dict[str, int]:
    """When checkpoints have committed last, in ms since 1970, by property, as far as snapshots are there."""
    times: dict[str, int] = {}
    for snapshot in stored.metadata.snapshots:
        run = None if snapshot.summary is None else snapshot.summary.additional_properties.get(RUN)
        if run is not None:
            key = application(run)
            times[key] = max(times.get(key, 0), snapshot.timestamp_ms)
    return times
