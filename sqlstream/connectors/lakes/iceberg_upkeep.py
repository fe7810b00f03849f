"""Upkeep of Iceberg tables, which changes no row: small files are put together, and old snapshots are forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.iceberg_columns import iceberg_errors, open_table
from sqlstream.connectors.lakes.iceberg_commits import Shortened, commit, is_passing, live_manifests
from sqlstream.connectors.lakes.iceberg_merge import deletes_of, lists_deletes, rows_of
from sqlstream.connectors.lakes.iceberg_tables import all_columns, data_files

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.delete_file_index import DeleteFileIndex

_MOST_BYTES = 128 << 20
"""Bytes of files that are put together at once, because their rows are in memory."""

_SMALL = 0.75
"""A file is small below this part of the size that the table wants."""


# --- small files ----------------------------------------------------------------------------------------------


def compact(name: str, identifier: str, storage: Mapping[str, str], retry: CommitRetry) -> None:
    """Puts small files of each partition together, and applies the deletes of others. ``name``: the table in SQL.

    After a conflict with other writers all is done again.
    """
    retry.commit(
        f'Iceberg table "{name}"', partial(open_table, name, identifier, storage), lambda _: False, _compact, is_passing
    )


def _compact(table: IcebergTable) -> None:
    manifests = live_manifests(table)
    entries = {m.manifest_path: m.fetch_manifest_entry(table.io) for m in manifests if not lists_deletes(m)}
    deletes = deletes_of(e for m in manifests if lists_deletes(m) for e in m.fetch_manifest_entry(table.io))
    added: list[DataFile] = []
    gone: set[str] = set()
    schema = all_columns(table)  # the files of some writers have texts as large ones
    for group in _groups(table, entries, deletes):
        rows = [rows_of(table, e.data_file, _applied(deletes, e), table.schema()).cast(schema) for e in group]
        added += data_files(table.metadata, pa.concat_tables(rows), table.io)
        gone |= {entry.data_file.file_path for entry in group}
    if not gone:
        return
    shortened = {
        path: Shortened(own, frozenset(there & gone))
        for path, own in entries.items()
        if (there := {entry.data_file.file_path for entry in own}) & gone
    }
    commit(table, manifests, added, shortened, {}, {}, rewrites=True)


def _applied(deletes: DeleteFileIndex, entry: ManifestEntry) -> set[Any]:
    file = entry.data_file
    return deletes.for_data_file(entry.sequence_number or 0, file, partition_key=file.partition)


def _groups(
    table: IcebergTable, entries: Mapping[str, list[ManifestEntry]], deletes: DeleteFileIndex
) -> Iterator[list[ManifestEntry]]:
    """Files to put together: several small ones of a partition, and those with deleted rows."""
    from pyiceberg.table import TableProperties
    from pyiceberg.utils.properties import property_as_int

    target = property_as_int(
        table.properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES,
        TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
    )  # fmt: skip
    most = min(target or _MOST_BYTES, _MOST_BYTES)
    current = table.metadata.default_spec_id
    by_partition: dict[Any, list[ManifestEntry]] = defaultdict(list)
    for entry in (entry for own in entries.values() for entry in own):
        file = entry.data_file
        is_earlier = file.spec_id != current  # and divided anew, with the others of its own kind
        if is_earlier or file.file_size_in_bytes < most * _SMALL or _applied(deletes, entry):
            by_partition[file.spec_id, tuple(_values(file.partition))].append(entry)
    for own in by_partition.values():
        for group in _bins(own, most):
            if len(group) > 1 or group[0].data_file.spec_id != current or _applied(deletes, group[0]):
                yield group


def _values(partition: Any) -> Iterator[Any]:
    return (partition[index] for index in range(len(partition)))


def _bins(entries: list[ManifestEntry], most: int) -> Iterator[list[ManifestEntry]]:
    group: list[ManifestEntry] = []
    size = 0
    for entry in entries:
        own = entry.data_file.file_size_in_bytes
        if group and size + own > most:
            yield group
            group, size = [], 0
        group.append(entry)
        size += own
    if group:
        yield group


# --- old snapshots --------------------------------------------------------------------------------------------


def expire(name: str, identifier: str, storage: Mapping[str, str], before: datetime | None, retry: CommitRetry) -> None:
    """Forgets the snapshots that are older than ``before``, or than the properties of the table say, and removes files
    that only they have. The newest snapshot, and those of branches and tags, remain.
    """
    table = open_table(name, identifier, storage)
    retry.commit(
        f'Iceberg table "{name}"', partial(open_table, name, identifier, storage), lambda _: False,
        partial(_expire, before=before), is_passing,
    )  # fmt: skip
    after = open_table(name, identifier, storage)
    there = {snapshot.snapshot_id for snapshot in after.snapshots()}
    gone = [snapshot for snapshot in table.snapshots() if snapshot.snapshot_id not in there]
    if gone:
        with iceberg_errors(name):
            needed = _files(after, after.snapshots())
            unneeded = _files(table, gone) - needed
        for path in sorted(unneeded):
            with suppress(Exception):  # what cannot be removed is an orphan of no snapshot
                after.io.delete(path)


def _expire(table: IcebergTable, *, before: datetime | None) -> None:
    from pyiceberg.table import TableProperties
    from pyiceberg.table.snapshots import ancestors_of
    from pyiceberg.utils.properties import property_as_int

    own = table.properties
    if before is None:
        age = property_as_int(own, TableProperties.MAX_SNAPSHOT_AGE_MS, TableProperties.MAX_SNAPSHOT_AGE_MS_DEFAULT)
        before = datetime.now(UTC) - timedelta(milliseconds=age or 0)
    default = TableProperties.MIN_SNAPSHOTS_TO_KEEP_DEFAULT
    fewest = property_as_int(own, TableProperties.MIN_SNAPSHOTS_TO_KEEP, default)
    newest = [s.snapshot_id for s in ancestors_of(table.current_snapshot(), table.metadata)][: max(1, fewest or 1)]
    kept = {*newest, *(ref.snapshot_id for ref in table.metadata.refs.values())}
    limit = before.timestamp() * 1000
    old = [s.snapshot_id for s in table.snapshots() if s.timestamp_ms < limit and s.snapshot_id not in kept]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()


def _files(table: IcebergTable, snapshots: Any) -> set[str]:
    """All files of snapshots: their lists of manifests, these, and what they list."""
    found: set[str] = set()
    manifests: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        found.add(path)
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        found |= {entry.data_file.file_path for entry in entries}
    return found
