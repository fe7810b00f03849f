"""The versions of Delta tables: the files of each, and what their protocol asks of readers.

The library deltalake reads whole versions, with checkpoints, deletion vectors and column mapping. What a single version
has added or removed is read from its commit file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from pyarrow import fs

from sqlstream.connectors.lakes.delta_columns import (
    StoredColumns,
    delta_errors,
    file_system,
    open_table,
    require_deltalake,
    uri_of,
)
from sqlstream.connectors.lakes.filters import Bounds, may_match
from sqlstream.connectors.lakes.unity import found_place
from sqlstream.connectors.lakes.versions import (
    CHANGE_TYPE,
    RETRACTS,
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
from sqlstream.udfs.files.details import FileDetails, constant_text, packed_positions
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from deltalake import DeltaTable

_DELETION_VECTORS = "deletionVectors"
_Action = Mapping[str, Any]

# --- versions -------------------------------------------------------------------------------------------------


class DeltaLog(VersionLog):
    """The versions of a Delta table."""

    columns: StoredColumns

    def __init__(self, settings: LakeSettings) -> None:
        super().__init__(settings)
        self._wanted = [name for name, _ in settings.columns]
        require_deltalake()
        self._place = found_place(settings.location, settings.storage)
        self._table = self._open()
        if not settings.bounded or settings.as_of is None:  # else the columns of that version count
            self._use(StoredColumns.of(self._table))
        self._files_of = lru_cache(4)(self._read)

    def _open(self, version: int | None = None) -> DeltaTable:
        """Opens a version. ConnectorError SS549 where the log does not lead to it any more."""
        settings = self._settings
        try:
            return open_table(settings.name, settings.location, settings.storage, version)
        except ConnectorError:
            if version is None or open_table(settings.name, settings.location, settings.storage).version() < version:
                raise
            raise self._gone(f"does not have its version {version} any more", expired=True) from None

    def _use(self, columns: StoredColumns) -> None:
        self._require(columns)
        self.columns = columns

    @cached_property
    def _fs(self) -> fs.FileSystem:
        return file_system(self._settings.location, self._settings.storage)

    @property
    def table_id(self) -> str:
        return str(self._table.metadata().id)

    def require_same(self, table_id: str, version: int) -> None:
        """A later version of the same table may have another id, where all of it was replaced."""
        if table_id not in (self.table_id, str(self._open(version).metadata().id)):
            raise self._gone(f"is another one than that of which version {version} was read: it was made again")

    def newest(self) -> int:
        place = found_place(self._settings.location, self._settings.storage)
        if place != self._place:  # there are other keys, because those before expire
            self._place, self._table = place, self._open()
            self.__dict__.pop("_fs", None)
        with delta_errors(self._settings.name, self._settings.location):
            before = self._table.version()
            self._table.update_incremental()
        newest = int(self._table.version())
        if newest != before and self._settings.as_of is None:
            columns = StoredColumns.of(self._table)
            if columns != self.columns:
                self._use(columns)
                self._files_of.cache_clear()
        return newest

    def after(self, version: int) -> int | None:
        newest = self._table.version()
        if version > newest:
            raise self._gone(f"has no version {version} any more: it was made again, and its newest one is {newest}")
        return version + 1 if version < newest else None

    def files(self, position: Position) -> Sequence[LakeFile]:
        return self._files_of(position.version, position.whole)

    def _read(self, version: int, whole: bool) -> Sequence[LakeFile]:
        if whole:
            return self._snapshot(version)
        return self._changes(version) if self._settings.changes else self._added(version)

    # --- where to begin -------------------------------------------------------------------------------------------

    def first_position(self) -> Position:
        settings = self._settings
        if settings.bounded:
            return Position(self.version_as_of(settings.as_of), whole=True, stop=True)
        newest = self.newest()
        match settings.start, settings.start_at:
            case "latest", _:
                return Position(newest, index=None)
            case "earliest", _:
                return Position(min(self._times()))
            case "version", str(at):
                self._require_commit(int(at), newest)
                return Position(int(at)) if int(at) <= newest else Position(newest, index=None)
            case "timestamp", str(at):
                time = _micros(datetime.fromisoformat(at))
                before = [version for version, committed in self._times().items() if committed < time]
                return Position(max(before), index=None) if before else Position(min(self._times()))
        return Position(newest, whole=True)

    def version_as_of(self, as_of: int | str | None) -> int:
        """The version with a number, or that was the newest one at a time (ISO 8601). ConnectorError SS549 where the
        log does not have it.
        """
        if as_of is None:
            return self.newest()
        if isinstance(as_of, int):
            if as_of > self.newest():
                raise self._gone(f"has no version {as_of}: the newest one is {self._table.version()}")
            return as_of
        time = _micros(datetime.fromisoformat(as_of))
        before = [version for version, committed in self._times().items() if committed <= time]
        if not before:
            oldest = datetime.fromtimestamp(min(self._times().values()) / 1e6, UTC).isoformat()
            raise self._gone(f"has no version of {as_of}: its log begins at {oldest}")
        return max(before)

    def _times(self) -> dict[int, int]:
        """By version, when it was committed in microseconds, as the modification times of commit files say it; each is
        later than the one before, as the protocol demands.
        """
        with delta_errors(self._settings.name, self._settings.location):
            infos = self._fs.get_file_info(fs.FileSelector("_delta_log"))
        commits = sorted((int(i.base_name[:-5]), i) for i in infos if _is_commit(i.base_name))
        recorded = self._table.metadata().configuration.get("delta.enableInCommitTimestamps") == "true"
        times: dict[int, int] = {}
        last = -1
        for version, info in commits:
            own = self._recorded_time(version) if recorded else None
            last = times[version] = max(info.mtime_ns // 1000 if own is None else own, last + 1)
        return times

    def _recorded_time(self, version: int) -> int | None:
        infos = (action["commitInfo"] for action in self._commit(version) if "commitInfo" in action)
        time = next((info.get("inCommitTimestamp") for info in infos), None)
        return None if time is None else int(time) * 1000

    def _require_commit(self, version: int, newest: int) -> None:
        if version > newest + 1:
            raise self._gone(f"has no version {version}: the newest one is {newest}")
        if version <= newest:
            self._commit(version)

    # --- files ----------------------------------------------------------------------------------------------------

    def _snapshot(self, version: int) -> Sequence[LakeFile]:
        """All files of a version, the oldest ones first. A stream goes on with later ones, and has the names of now."""
        table = self._open(version)
        there = StoredColumns.of(table)
        if self._settings.bounded:
            self._use(there)
        deleted = self._deleted(table)
        actions = pa.table(table.get_add_actions()).sort_by([("modification_time", "ascending"), ("path", "ascending")])
        files = []
        for action in actions.to_pylist():
            partition = {there.in_files(name): value for name, value in (action.get("partition") or {}).items()}
            values = {name: constant_text(value) for name, value in partition.items()}
            details = self.columns.details(unquote(action["path"]), values, self._wanted)
            details = replace(
                details, deleted=packed_positions(deleted.get(self._place_of(details.location), _NO_ROWS))
            )
            file = self._file(action["size_bytes"], details, RowKind.INSERT)
            pruned = bool(self._settings.filters) and not self._may_match(action, partition)
            files.append(replace(file, pruned=pruned))
        return files

    def _may_match(self, action: _Action, partition: Mapping[str, Any]) -> bool:
        """``partition``: the values by which the file is partitioned, by their names in files."""
        bounds: dict[str, Bounds] = {}
        for name in self._wanted:
            stored = self.columns.in_files(self.columns.own(name) or name)
            if stored in partition:
                value = partition[stored]
                bounds[name] = Bounds(value, value, value is None, value is None)
                continue
            least, most, nulls = ((action.get(key) or {}).get(stored) for key in ("min", "max", "null_count"))
            rows = action.get("num_records")
            bounds[name] = Bounds(least, most, nulls != 0, nulls is not None and nulls == rows)
        return may_match(self._settings.filters, bounds)

    def _deleted(self, table: DeltaTable) -> dict[str, np.ndarray]:
        """The positions of deleted rows, by ``_place_of`` the file."""
        if _DELETION_VECTORS not in (table.protocol().reader_features or ()):
            return {}
        with delta_errors(self._settings.name, self._settings.location):
            vectors = pa.table(table.deletion_vectors())
        places = [_place(unquote(url)) for url in vectors["filepath"].to_pylist()]
        kept = (np.asarray(vector.values) for vector in vectors["selection_vector"])
        return {place: np.flatnonzero(~keep) for place, keep in zip(places, kept, strict=True)}

    def _place_of(self, location: str) -> str:
        """The place of a file that the log names by its path in the table or by a URL, in any store."""
        if "://" in location or location.startswith("file:/"):
            return _place(location)
        return f"{_place(unquote(self._table.table_uri)).rstrip('/')}/{location}"

    def _file(self, size: int, details: FileDetails, kind: RowKind | None) -> LakeFile:
        if self._settings.changes and kind is not None:
            details = replace(details, constants={**details.constants, ROW_KIND: kind.value})
        location, root = details.location, uri_of(self._settings.location).rstrip("/")
        if location.startswith("file:/"):  # of a shallow clone
            return LakeFile(f"file://{quote(_place(location))}", size, details)
        whole = location if "://" in location else f"{root}/{location}"
        return LakeFile(whole if "://" in whole else f"file://{quote(whole)}", size, details)

    # --- what a version has done ----------------------------------------------------------------------------------

    def _commit(self, version: int) -> list[_Action]:
        """The actions of a version. ConnectorError SS549 where its commit file is gone."""
        try:
            return commit_of(self._fs, version)
        except FileNotFoundError:
            raise self._gone(f"does not have its version {version} any more", expired=True) from None

    def _gone(self, what: str, *, expired: bool = False) -> ConnectorError:
        hint = f"{START_AGAIN}, and keep the log longer (delta.logRetentionDuration)." if expired else None
        return ConnectorError(VERSION_GONE, f'Delta table "{self._settings.name}" {what}', hint=hint)

    def _data(self, version: int, key: str) -> list[_Action]:
        actions = (action[key] for action in self._commit(version) if key in action)
        return [action for action in actions if key == "cdc" or action.get("dataChange", True)]

    def _added(self, version: int) -> Sequence[LakeFile]:
        if self._data(version, "remove"):
            if self._settings.skips_rewrites:
                return ()
            name, operation = self._settings.name, self._operation(version)
            message = f'version {version} of Delta table "{name}" changes or removes rows ({operation})'
            hint = (
                "Declare 'changelog-mode' = 'I,UB,UA,D' to read changes, or leave such versions out: "
                "'source.rewritten-rows' = 'skip'."
            )
            raise ConnectorError(REWRITTEN, message, hint=hint)
        vectors = self._vectors(version, self._data(version, "add"))
        return [self._of_action(action, RowKind.INSERT, vectors) for action in self._data(version, "add")]

    def _operation(self, version: int) -> str:
        infos = (action["commitInfo"] for action in self._commit(version) if "commitInfo" in action)
        return str(next((info.get("operation") for info in infos), "no operation is named"))

    def _vectors(self, version: int, actions: Sequence[_Action]) -> dict[str, np.ndarray]:
        return self._deleted(self._open(version)) if any(a.get("deletionVector") for a in actions) else {}

    def _of_action(self, action: _Action, kind: RowKind | None, deleted: Mapping[str, np.ndarray]) -> LakeFile:
        values = action.get("partitionValues")
        if values is None and self.columns.partitions:
            message = f'the log of Delta table "{self._settings.name}" does not say the partition of a removed file'
            raise ConnectorError(
                UNSUPPORTED_FEATURE, message, hint="Enable the change feed (delta.enableChangeDataFeed)."
            )
        filled = {name: text or None for name, text in (values or {}).items()}  # an empty text means NULL
        details = self.columns.details(unquote(action["path"]), filled, self._wanted)
        details = replace(details, deleted=packed_positions(deleted.get(self._place_of(details.location), _NO_ROWS)))
        return self._file(action.get("size") or 1, details, kind)

    def _changes(self, version: int) -> Sequence[LakeFile]:
        """What a version has changed, retractions first: its change feed, else what it has removed and added."""
        feed = self._data(version, "cdc")
        if feed:
            files = [self._of_action(action, None, {}) for action in feed]
            return [_of_feed(file, retracts) for retracts in (True, False) for file in files]
        removed, added = self._data(version, "remove"), self._data(version, "add")
        before = self._vectors(version - 1, removed)
        after = self._vectors(version, added)
        gone = [self._of_action(action, RowKind.DELETE, before) for action in removed]
        new = [self._of_action(action, RowKind.INSERT, after) for action in added]
        return self._without_kept_rows(gone, new, before, after, {unquote(a["path"]): _row_count(a) for a in added})

    def _without_kept_rows(
        self,
        gone: Sequence[LakeFile],
        new: Sequence[LakeFile],
        before: Mapping[str, np.ndarray],
        after: Mapping[str, np.ndarray],
        counts: Mapping[str, int | None],
    ) -> list[LakeFile]:
        """A file that is removed and added with other deleted rows still has the others, which do not change."""
        both = {file.details.location for file in gone} & {file.details.location for file in new}

        def only(file: LakeFile, own: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> LakeFile:
            path = file.details.location
            if path not in both:
                return file
            count, place = counts[path], self._place_of(path)
            assert count is not None, "a file with a deletion vector has numRecords"
            changed = np.setdiff1d(other.get(place, _NO_ROWS), own.get(place, _NO_ROWS))
            deleted = packed_positions(np.setdiff1d(np.arange(count), changed))
            return replace(file, details=replace(file.details, deleted=deleted))

        return [*(only(file, before, after) for file in gone), *(only(file, after, before) for file in new)]


def commit_of(files: fs.FileSystem, version: int) -> list[_Action]:
    """The actions of a version, of a table whose folder is the root of ``files``. FileNotFoundError where its commit
    file is gone.
    """
    with files.open_input_file(f"_delta_log/{version:020d}.json") as file:
        return [json.loads(line) for line in file.read().splitlines() if line.strip()]


def _of_feed(file: LakeFile, retracts: bool) -> LakeFile:
    constants = {**file.details.constants, RETRACTS: str(retracts).lower()}
    names = {**file.details.names, CHANGE_TYPE: CHANGE_TYPE}
    return replace(file, details=replace(file.details, constants=constants, names=names))


_NO_ROWS = np.zeros(0, np.int64)


def _row_count(action: _Action) -> int | None:
    count = json.loads(action.get("stats") or "{}").get("numRecords")
    return None if count is None else int(count)


def _is_commit(name: str) -> bool:
    return len(name) == 25 and name.endswith(".json") and name[:-5].isdigit()


def _micros(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)


def _place(location: str) -> str:
    """A URL without its scheme, which writers spell in several ways; of a local file its path."""
    if location.startswith("file:/"):
        return f"/{location.removeprefix('file:').lstrip('/')}"
    return location.partition("://")[2] or location
