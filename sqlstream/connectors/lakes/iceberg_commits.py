"""Commits to Iceberg tables: a snapshot that adds and removes files, and properties of the table, in one step.

The library's transactions copy all metadata of the table at each step, and read all manifests to remove a file. Both
take longer with each snapshot, and a commit that takes longer than the pause between those of other writers never
succeeds. A commit here reads the list of manifests, and writes the manifests that it changes.
"""

from __future__ import annotations

import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.formats.columnar import usual_type
from sqlstream.udfs.files.details import constant

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile, ManifestWriter
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Snapshot, Summary

    _Write = Callable[[ManifestWriter, ManifestEntry], ManifestWriter]
    """Writes an entry into a manifest, as one that a snapshot adds, removes or only lists."""


@dataclass(frozen=True)
class Shortened:
    """A manifest without some of its files. ``entries``: all that are there; ``removed``: paths of those to remove."""

    entries: Sequence[ManifestEntry]
    removed: frozenset[str]

    def having(self, *, removed: bool) -> list[ManifestEntry]:
        """The entries of files that are removed, or of the others."""
        return [entry for entry in self.entries if (entry.data_file.file_path in self.removed) == removed]


def live_manifests(table: IcebergTable) -> list[ManifestFile]:
    """The manifests of the newest snapshot that list files which are there."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    return [m for m in snapshot.manifests(table.io) if m.has_added_files() or m.has_existing_files()]


def commit(
    table: IcebergTable, manifests: Sequence[ManifestFile], added: Sequence[DataFile],
    shortened: Mapping[str, Shortened], properties: Mapping[str, str | None], summary: Mapping[str, str], *,
    rewrites: bool = False,
) -> None:  # fmt: skip
    """Commits a snapshot with files added and others removed, and sets properties of the table, or removes those that
    are None. ``manifests``: those of the newest snapshot; ``shortened``: by path those that lose files.
    ``summary``: what is written into the snapshot. ``rewrites``: the files added have the rows of those removed.

    CommitFailedException where another snapshot was committed after ``table`` was read. Where no file changes the
    snapshot is still there, so that none of the properties may have been set, or removed, meanwhile.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
    from pyiceberg.table.update import (
        AddSnapshotUpdate,
        AssertRefSnapshotId,
        AssertTableUUID,
        RemovePropertiesUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    )

    metadata_files = _MetadataFiles(table)
    newest: dict[str, Any] = {"ref": MAIN_BRANCH, "snapshot-id": metadata_files.parent_id}
    requirements = (AssertRefSnapshotId(**newest), AssertTableUUID(uuid=table.metadata.table_uuid))
    new = metadata_files.snapshot(manifests, added, shortened, summary, rewrites)
    branch: dict[str, Any] = {
        "ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": new.snapshot_id,
    }  # fmt: skip
    updates: list[Any] = [AddSnapshotUpdate(snapshot=new), SetSnapshotRefUpdate(**branch)]
    if filled := {key: value for key, value in properties.items() if value is not None}:
        updates.append(SetPropertiesUpdate(updates=filled))
    if removals := [key for key, value in properties.items() if value is None]:
        updates.append(RemovePropertiesUpdate(removals=removals))
    try:
        table._do_commit(updates=tuple(updates), requirements=requirements)
    except CommitFailedException:
        metadata_files.remove()
        raise


def remove_all(table: IcebergTable) -> None:
    """Commits a snapshot without rows, unless there are none."""
    manifests = live_manifests(table)
    shortened = without_partition(table, manifests, {})
    if shortened:
        commit(table, manifests, (), shortened, {}, {})


def without_partition(
    table: IcebergTable, manifests: Sequence[ManifestFile], values: Mapping[str, str | None]
) -> dict[str, Shortened]:
    """The manifests without the files of a partition, by path. ``values``: the texts of its values by column, of
    columns by which the table is partitioned as they are; without any all files are left out.
    """
    from pyiceberg.manifest import ManifestContent

    shortened = {}
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA:
            wanted = _partition_values(table, manifest.partition_spec_id, values)
            entries = manifest.fetch_manifest_entry(table.io)
            gone = [e for e in entries if all(_same(e.data_file.partition[at], v) for at, v in wanted.items())]
            if gone:
                paths = frozenset(entry.data_file.file_path for entry in gone)
                shortened[manifest.manifest_path] = Shortened(entries, paths)
    return shortened


def _partition_values(table: IcebergTable, spec_id: int, values: Mapping[str, str | None]) -> dict[int, Any]:
    """The values of a partition by their place in those of files. ValueError for files that are partitioned by other
    columns, and for a text that is no value of its column.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.partitioning import _to_partition_representation

    schema, places = table.schema(), {}
    kinds = schema_to_pyarrow(schema, include_field_ids=False)
    fields = table.specs()[spec_id].fields
    own = {f.source_id: at for at, f in enumerate(fields) if str(f.transform) == "identity"}
    for name, text in values.items():
        column = schema.find_field(name, case_sensitive=False)
        if column.field_id not in own:
            raise ValueError(f'some files are not partitioned by "{name}"; put them together at first: COMPACT')
        value = constant(text, usual_type(kinds.field(column.name).type)).as_py()
        places[own[column.field_id]] = None if text is None else _to_partition_representation(column.field_type, value)
    return places


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))  # NaN is equal to NaN


def is_passing(error: Exception) -> bool:
    """Whether a commit may succeed when it is repeated: another writer was first, or the catalog, its database or the
    store did not answer. A catalog that has failed may have committed; its repetition looks for that.
    """
    from pyiceberg import exceptions

    passing = (
        exceptions.CommitFailedException, exceptions.CommitStateUnknownException, exceptions.ServerError,
        exceptions.ServiceUnavailableError, exceptions.TooManyRequestsError, exceptions.WaitingForLockException,
    )  # fmt: skip
    return isinstance(error, (*passing, OSError)) or _is_of_busy_database(error)


def _is_of_busy_database(error: Exception) -> bool:
    """Whether the database of an SQL catalog was locked, or its connection was lost."""
    errors = sys.modules.get("sqlalchemy.exc")  # else no catalog has used it
    return errors is not None and isinstance(error, errors.OperationalError)


class _MetadataFiles:
    """The manifests and the list of manifests of a new snapshot, which it writes."""

    def __init__(self, table: IcebergTable) -> None:
        from pyiceberg.table import TableProperties

        self._table, self._metadata = table, table.metadata
        self._parent = table.current_snapshot()
        self._id, self._uuid = table.metadata.new_snapshot_id(), uuid.uuid4()
        self._paths: list[str] = []
        codec = TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        self._codec: Any = table.properties.get(TableProperties.WRITE_AVRO_COMPRESSION, codec)

    @property
    def parent_id(self) -> int | None:
        return None if self._parent is None else self._parent.snapshot_id

    def snapshot(
        self, manifests: Sequence[ManifestFile], added: Sequence[DataFile], shortened: Mapping[str, Shortened],
        summary: Mapping[str, str], rewrites: bool,
    ) -> Snapshot:  # fmt: skip
        """Writes a snapshot that follows the newest one."""
        from pyiceberg.manifest import ManifestWriter, write_manifest_list
        from pyiceberg.table.snapshots import Snapshot

        unchanged = self._together([m for m in manifests if m.manifest_path not in shortened])
        rest = [
            self._manifest(m.partition_spec_id, kept, ManifestWriter.existing)
            for m in manifests
            if m.manifest_path in shortened and (kept := shortened[m.manifest_path].having(removed=False))
        ]
        gone = [entry for own in shortened.values() for entry in own.having(removed=True)]
        sequence_number = self._metadata.next_sequence_number()
        path = self._path(f"snap-{self._id}-0-{self._uuid}.avro")
        with write_manifest_list(
            self._metadata.format_version, self._table.io.new_output(path), self._id, self.parent_id, sequence_number,
            self._codec,
        ) as manifest_list:  # fmt: skip
            manifest_list.add_manifests([*self._added(added), *self._removed(gone), *rest, *unchanged])
        fields: dict[str, Any] = {
            "snapshot-id": self._id, "parent-snapshot-id": self.parent_id, "sequence-number": sequence_number,
            "manifest-list": path, "schema-id": self._metadata.current_schema_id,
            "summary": self._summary(added, [entry.data_file for entry in gone], summary, rewrites),
        }  # fmt: skip
        return Snapshot(**fields)

    def _together(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests, of which many small ones of the same partitions become one, as the properties of the table
        say. Each commit adds some, and an upsert reads all that may list its keys.
        """
        from pyiceberg.manifest import ManifestContent, ManifestWriter
        from pyiceberg.table import TableProperties
        from pyiceberg.utils.properties import property_as_bool, property_as_int

        own = self._table.properties
        default = TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT
        fewest = property_as_int(own, TableProperties.MANIFEST_MIN_MERGE_COUNT, default)
        default = TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT
        target = property_as_int(own, TableProperties.MANIFEST_TARGET_SIZE_BYTES, default)
        if not property_as_bool(own, TableProperties.MANIFEST_MERGE_ENABLED, True):
            return [*manifests]
        small: dict[int, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            if manifest.content == ManifestContent.DATA and manifest.manifest_length < (target or 0):
                small[manifest.partition_spec_id].append(manifest)
        many = {spec: found for spec, found in small.items() if len(found) >= max(2, fewest or 0)}
        gone = {manifest.manifest_path for found in many.values() for manifest in found}
        made = [
            self._manifest(
                spec, (e for m in found for e in m.fetch_manifest_entry(self._table.io)), ManifestWriter.existing
            )
            for spec, found in many.items()
        ]
        return [*made, *(m for m in manifests if m.manifest_path not in gone)]

    def remove(self) -> None:
        """Removes what was written for a commit that has failed, unless it has not: an answer may have been lost before
        the client of the catalog repeated the request. What cannot be removed is an orphan of no snapshot.
        """
        with suppress(Exception):
            if self._table.refresh().snapshot_by_id(self._id) is None:
                for path in self._paths:
                    self._table.io.delete(path)

    def _path(self, name: str) -> str:
        path = self._table.location_provider().new_metadata_location(name)
        self._paths.append(path)
        return path

    def _manifest(self, spec: int, entries: Iterable[ManifestEntry], write: _Write) -> ManifestFile:
        from pyiceberg.manifest import write_manifest

        output = self._table.io.new_output(self._path(f"{self._uuid}-m{len(self._paths)}.avro"))
        with write_manifest(
            self._metadata.format_version, self._metadata.specs()[spec], self._schema_of(spec), output, self._id,
            self._codec,
        ) as manifest:  # fmt: skip
            for entry in entries:
                write(manifest, entry)
        return manifest.to_manifest_file()

    def _schema_of(self, spec: int) -> Schema:
        """The newest schema that has all columns of a partition spec: of one that was dropped it knows the type."""
        columns = {field.source_id for field in self._metadata.specs()[spec].fields}
        newest_first = [self._metadata.schema(), *reversed(self._metadata.schemas)]
        return next((schema for schema in newest_first if columns <= schema.field_ids), newest_first[0])

    def _added(self, files: Sequence[DataFile]) -> list[ManifestFile]:
        from pyiceberg.manifest import ManifestEntry, ManifestWriter

        made = [ManifestEntry.from_args(data_file=file) for file in files]
        return [self._manifest(spec, entries, ManifestWriter.add) for spec, entries in _by_spec(made).items()]

    def _removed(self, gone: Sequence[ManifestEntry]) -> list[ManifestFile]:
        from pyiceberg.manifest import ManifestWriter

        return [self._manifest(spec, entries, ManifestWriter.delete) for spec, entries in _by_spec(gone).items()]

    def _summary(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], more: Mapping[str, str], rewrites: bool
    ) -> Summary:
        from pyiceberg.table import TableProperties
        from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries

        schema, specs = self._metadata.schema(), self._metadata.specs()
        limit = self._table.properties.get(TableProperties.WRITE_PARTITION_SUMMARY_LIMIT)
        collector = SnapshotSummaryCollector(int(limit or TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT))
        for file in added:
            collector.add_file(file, schema, specs[file.spec_id])
        for file in removed:
            collector.remove_file(file, schema, specs[file.spec_id])
        operation = Operation.OVERWRITE if added else Operation.DELETE
        summary = Summary(operation if removed else Operation.APPEND, **collector.build(), **more)
        whole = update_snapshot_summaries(summary, None if self._parent is None else self._parent.summary)
        return Summary(Operation.REPLACE, **whole.additional_properties) if rewrites else whole


def _by_spec(entries: Iterable[ManifestEntry]) -> dict[int, list[ManifestEntry]]:
    """The entries by how their files are partitioned."""
    specs: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        specs[entry.data_file.spec_id].append(entry)
    return specs
