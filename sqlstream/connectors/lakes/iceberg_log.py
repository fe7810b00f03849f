"""The snapshots of Iceberg tables: the files of each, and what readers must know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from sqlstream.connectors.lakes.iceberg_columns import StoredColumns, iceberg_errors, open_table, value_text
from sqlstream.connectors.lakes.versions import (
    REWRITTEN,
    START_AGAIN,
    UNSUPPORTED_FEATURE,
    VERSION_GONE,
    LakeFile,
    LakeSettings,
    Position,
    VersionLog,
)
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import RowKind
from sqlstream.udfs.files.details import FileDetails, packed_positions
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask

_EMPTY = -1
"""The version of a table without snapshots."""

_NO_ROWS = np.zeros(0, np.int64)

# --- snapshots ------------------------------------------------------------------------------------------------


class IcebergLog(VersionLog):
    """The snapshots of an Iceberg table that lead to the current one. The version is the id of a snapshot."""

    columns: StoredColumns

    def __init__(self, settings: LakeSettings) -> None:
        super().__init__(settings)
        self._wanted = [name for name, _ in settings.columns]
        self._table = open_table(settings.name, settings.location, settings.storage)
        self._look()
        if not settings.bounded or settings.as_of is None:
            self._use(StoredColumns.of(self._table))
        self._files_of = lru_cache(4)(self._read)

    def _use(self, columns: StoredColumns) -> None:
        self._require(columns)
        self.columns = columns

    def _look(self) -> None:
        from pyiceberg.table.snapshots import ancestors_of

        with iceberg_errors(self._settings.name):
            snapshots = [*ancestors_of(self._table.current_snapshot(), self._table.metadata)]
        self._snapshots = {s.snapshot_id: s for s in reversed(snapshots)}
        self._following = {s.parent_snapshot_id: s.snapshot_id for s in snapshots}

    @property
    def table_id(self) -> str:
        return str(self._table.metadata.table_uuid)

    def require_same(self, table_id: str, version: int) -> None:
        if table_id != self.table_id:
            raise self._gone("is another one than that which was read before: it was made again")

    def newest(self) -> int:
        before = self._table.metadata_location
        with iceberg_errors(self._settings.name):
            self._table.refresh()
        self._look()
        if self._table.metadata_location != before and self._settings.as_of is None:
            columns = StoredColumns.of(self._table)
            if columns != self.columns:
                self._use(columns)
                self._files_of.cache_clear()
        return self._current()

    def _current(self) -> int:
        return next(reversed(self._snapshots), _EMPTY)

    def after(self, version: int) -> int | None:
        if version == self._current():
            return None
        following = self._following.get(None if version == _EMPTY else version)
        # Snapshots lose their parent where that expires, so that one without a parent need not be the first one.
        skipped = version == _EMPTY and (self._snapshots[following].sequence_number or 0) > 1 if following else False
        if following is None or skipped:
            what = f"does not have what follows its snapshot {version}: snapshots have expired, or it was rolled back"
            raise self._gone(what, expired=True)
        return following

    def _gone(self, what: str, *, expired: bool = False) -> ConnectorError:
        hint = f"{START_AGAIN}, and keep snapshots longer." if expired else None
        return ConnectorError(VERSION_GONE, f'Iceberg table "{self._settings.name}" {what}', hint=hint)

    # --- where to begin -------------------------------------------------------------------------------------------

    def first_position(self) -> Position:
        settings = self._settings
        if settings.bounded:
            return Position(self._version_as_of(settings.as_of), whole=True, stop=True)
        newest = self.newest()
        if newest == _EMPTY:
            return Position(_EMPTY, index=None)
        match settings.start, settings.start_at:
            case "latest", _:
                return Position(newest, index=None)
            case "earliest", _:
                return Position(next(iter(self._snapshots)))
            case "version", str(at):
                self._require_snapshot(int(at))
                return Position(int(at))
            case "timestamp", str(at):
                time = datetime.fromisoformat(at).timestamp() * 1000
                later = [s.snapshot_id for s in self._snapshots.values() if s.timestamp_ms >= time]
                return Position(later[0]) if later else Position(newest, index=None)
        return Position(newest, whole=True)

    def _require_snapshot(self, snapshot: int) -> None:
        if snapshot not in self._snapshots:
            raise self._gone(f"has no snapshot {snapshot} among those that lead to the current one")

    def _version_as_of(self, as_of: int | str | None) -> int:
        if as_of is None:
            return self.newest()
        if isinstance(as_of, int):
            if self._table.snapshot_by_id(as_of) is None:
                raise self._gone(f"has no snapshot {as_of}")
            return as_of
        time = datetime.fromisoformat(as_of).timestamp() * 1000
        before = [entry for entry in self._table.history() if entry.timestamp_ms <= time]
        if not before:
            raise self._gone(f"has no snapshot of {as_of}: it is older than all that are there")
        return before[-1].snapshot_id

    # --- files ----------------------------------------------------------------------------------------------------

    def files(self, position: Position) -> Sequence[LakeFile]:
        return () if position.version == _EMPTY else self._files_of(position.version, position.whole)

    def _read(self, version: int, whole: bool) -> Sequence[LakeFile]:
        if self._table.snapshot_by_id(version) is None:
            raise self._gone(f"does not have its snapshot {version} any more", expired=True)
        with iceberg_errors(self._settings.name):
            if whole:
                return self._snapshot(version)
            return self._changes(version) if self._settings.changes else self._added(version)

    def _snapshot(self, version: int) -> Sequence[LakeFile]:
        """All files of a snapshot, in the order in which they were added."""
        if self._settings.as_of is not None:
            number = self._table.snapshot_by_id(version).schema_id  # type: ignore[union-attr]  # it is there
            schema = self._table.schemas().get(-1 if number is None else number)
            self._use(StoredColumns.of(self._table, schema))
        tasks = self._tasks(version)
        added = {entry.data_file.file_path: entry.sequence_number or 0 for entry in self._entries(version, every=True)}
        tasks = sorted(tasks, key=lambda t: (added.get(t.file.file_path, 0), t.file.file_path))
        kept = None
        if self._settings.filters:
            kept = {task.file.file_path for task in self._tasks(version, self._expression())}
        deleted = self._deleted(tasks)
        files = (self._file(task.file, RowKind.INSERT, deleted) for task in tasks)
        return [replace(file, pruned=kept is not None and file.details.location not in kept) for file in files]

    def _tasks(self, version: int, row_filter: BooleanExpression | str = "true") -> list[FileScanTask]:
        from pyiceberg.expressions import AlwaysTrue

        scan = self._table.scan(AlwaysTrue() if row_filter == "true" else row_filter, snapshot_id=version)
        try:
            return [*scan.plan_files()]
        except ValueError as error:
            if "equality" not in str(error):
                raise
            message = f'Iceberg table "{self._settings.name}" has equality deletes, which are not supported'
            hint = "Let its writer put files together (rewrite_data_files), which applies them."
            raise ConnectorError(UNSUPPORTED_FEATURE, message, hint=hint) from None

    def _expression(self) -> BooleanExpression:
        """The filters as an expression of Iceberg, by which it leaves out files. It has the names of the newest schema:
        the library looks for columns there, also in an earlier snapshot, in which another column may have a name.
        """
        from pyiceberg import expressions

        ice: Any = expressions  # whose annotations do not know terms as texts
        compared: Mapping[str, Any] = {
            "=": ice.EqualTo, "<>": ice.NotEqualTo, "<": ice.LessThan, "<=": ice.LessThanOrEqual,
            ">": ice.GreaterThan, ">=": ice.GreaterThanOrEqual,
        }  # fmt: skip
        names = {field.field_id: field.name for field in self._table.schema().fields}
        result: BooleanExpression = ice.AlwaysTrue()
        for comparison in self._settings.filters:
            own = self.columns.own(comparison.column) or comparison.column
            name = names.get(self.columns.ids[own])
            if name is None:  # it was dropped since
                continue
            match comparison.operator:
                case "IS NULL":
                    result = ice.And(result, ice.IsNull(name))
                case "IS NOT NULL":
                    result = ice.And(result, ice.NotNull(name))
                case "IN":
                    result = ice.And(result, ice.In(name, comparison.value))
                case operator:
                    result = ice.And(result, compared[operator](name, comparison.value))
        return result

    def _deleted(self, tasks: Sequence[FileScanTask]) -> dict[str, np.ndarray]:
        """The positions of deleted rows, by file."""
        from pyiceberg.io.pyarrow import _read_all_delete_files

        found = _read_all_delete_files(self._table.io, tasks)
        return {path: np.concatenate([np.asarray(array) for array in arrays]) for path, arrays in found.items()}

    def _entries(self, version: int, *, every: bool = False) -> Iterator[Any]:
        """The entries of manifests that a snapshot has added; with ``every`` those of all its data files."""
        snapshot = self._table.snapshot_by_id(version)
        assert snapshot is not None
        for manifest in snapshot.manifests(self._table.io):
            if every or manifest.added_snapshot_id == version:
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=every):
                    if every or entry.snapshot_id == version:
                        yield entry

    def _file(self, file: DataFile, kind: RowKind, deleted: Mapping[str, np.ndarray]) -> LakeFile:
        path = file.file_path
        if file.file_format.value.upper() != "PARQUET":
            message = f'Iceberg table "{self._settings.name}" has files of {file.file_format.value}'
            raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Files of Parquet are supported.")
        own = {name: self.columns.own(name) or name for name in self._wanted}
        constants = self._constants(file, own)
        if self._settings.changes:
            constants[ROW_KIND] = kind.value
        details = FileDetails(
            path,
            constants,
            {name: self.columns.names[stored] for name, stored in own.items() if stored in self.columns.names},
            {name: self.columns.ids[stored] for name, stored in own.items()},
            packed_positions(deleted.get(path, _NO_ROWS)),
            {name: self.columns.defaults[stored] for name, stored in own.items() if stored in self.columns.defaults},
        )
        return LakeFile(_url(path), file.file_size_in_bytes, details)

    def _constants(self, file: DataFile, own: Mapping[str, str]) -> dict[str, str | None]:
        """The values of columns by which the file is partitioned as they are: files need not have them."""
        spec = self._table.specs()[file.spec_id]
        values = {
            field.source_id: file.partition[position]
            for position, field in enumerate(spec.fields)
            if str(field.transform) == "identity"
        }
        found = {name: self.columns.ids[stored] for name, stored in own.items()}
        kinds = {name: self.columns.schema.field(stored).type for name, stored in own.items()}
        return {name: value_text(values[number], kinds[name]) for name, number in found.items() if number in values}

    # --- what a snapshot has done ---------------------------------------------------------------------------------

    def _added(self, version: int) -> Sequence[LakeFile]:
        added, removed, deletes = self._done(version)
        if removed or deletes:
            if self._settings.skips_rewrites:
                return ()
            operation = self._operation(version)
            message = (
                f'snapshot {version} of Iceberg table "{self._settings.name}" changes or removes rows ({operation})'
            )
            hint = (
                "Declare 'changelog-mode' = 'I,UB,UA,D' to read changes, or leave such snapshots out: "
                "'source.rewritten-rows' = 'skip'."
            )
            raise ConnectorError(REWRITTEN, message, hint=hint)
        return [self._file(file, RowKind.INSERT, {}) for file in added]

    def _operation(self, version: int) -> str:
        snapshot = self._table.snapshot_by_id(version)
        summary = None if snapshot is None else snapshot.summary
        return "append" if summary is None else summary.operation.value

    def _done(self, version: int) -> tuple[list[DataFile], list[DataFile], bool]:
        """The data files that a snapshot has added and removed, and whether it has added deletes. Where it puts files
        together, nothing has changed.
        """
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

        if self._operation(version) == "replace":
            return [], [], False
        added, removed, deletes = [], [], False
        for entry in self._entries(version):
            if entry.data_file.content != DataFileContent.DATA:
                deletes = deletes or entry.status == ManifestEntryStatus.ADDED
            elif entry.status == ManifestEntryStatus.ADDED:
                added.append(entry.data_file)
            elif entry.status == ManifestEntryStatus.DELETED:
                removed.append(entry.data_file)
        return added, removed, deletes

    def _changes(self, version: int) -> Sequence[LakeFile]:
        """The rows of the files that a snapshot has removed and added, retractions first."""
        added, removed, deletes = self._done(version)
        if deletes:
            message = f'snapshot {version} of Iceberg table "{self._settings.name}" adds delete files'
            detail = "Changes are read of tables that are written with copy-on-write."
            hint = "Set write.delete.mode, write.update.mode and write.merge.mode of the table to copy-on-write."
            raise ConnectorError(UNSUPPORTED_FEATURE, message, detail=detail, hint=hint)
        before: dict[str, np.ndarray] = {}
        snapshot = self._table.snapshot_by_id(version)
        if removed and snapshot is not None and snapshot.parent_snapshot_id is not None:
            gone = {file.file_path for file in removed}
            if self._table.snapshot_by_id(snapshot.parent_snapshot_id) is None:
                raise self._gone(f"does not have its snapshot {snapshot.parent_snapshot_id} any more", expired=True)
            tasks = self._tasks(snapshot.parent_snapshot_id)
            before = self._deleted([task for task in tasks if task.file.file_path in gone])
        return [
            *(self._file(file, RowKind.DELETE, before) for file in removed),
            *(self._file(file, RowKind.INSERT, {}) for file in added),
        ]


def _url(path: str) -> str:
    """The URL of a file, whose path the table has without the escapes of URLs."""
    local = path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
    return local if "://" in local else f"file://{quote(local)}"
