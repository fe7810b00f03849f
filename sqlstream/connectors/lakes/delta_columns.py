"""Delta tables: how the library opens them, and the columns that they have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs
from pyarrow import types as kinds

from sqlstream.connectors.lakes.unity import found_place
from sqlstream.connectors.lakes.versions import NO_LAKE_TABLE, UNSUPPORTED_FEATURE, LakeColumns, LakeSettings
from sqlstream.connectors.stores.options import deltalake_options, prefixed
from sqlstream.errors import ConnectorError, Diagnostic
from sqlstream.formats.store_errors import store_error
from sqlstream.types import DataType
from sqlstream.udfs.files.details import FileDetails
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.texts import one_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

PRIMARY_KEY = "sqlstream.primary-key"
"""The property of a table that lists its PRIMARY KEY as JSON: Delta has none of its own."""

_PHYSICAL_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_MAPPING = "delta.columnMapping.mode"


# --- opening --------------------------------------------------------------------------------------------------


def storage_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The options of the object store as deltalake has them; those that are given as its own win."""
    return deltalake_options(values) | prefixed(values, "storage.")


def require_deltalake() -> None:
    """Raises ConnectorError SS577 where the package is not installed."""
    if find_spec("deltalake") is None:
        raise no_package("delta", "deltalake")


@contextmanager
def delta_errors(name: str, path: str) -> Iterator[None]:
    """Turns errors of the library about the table ``name`` into ConnectorError SS545, or SS675 to SS677 where they are
    those of an object store. ``path``: where the table is.
    """
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError as error:
        message = f'the path of table "{name}" has no Delta table'
        hint = "Correct the option \"path\"; an INSERT creates the table, unless 'create-table' is 'false'."
        raise ConnectorError(NO_LAKE_TABLE, message, detail=f"{one_line(error).rstrip('.')}.", hint=hint) from None
    except (DeltaError, OSError) as error:
        if (of_store := store_error(path, one_line(error), f'Delta table "{name}"')) is not None and "://" in path:
            raise of_store from None
        if "catalog-managed" in str(error):
            message = (
                f'the commits of Delta table "{name}" are those of a catalog (catalogManaged), which is not supported'
            )
            raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Read it by the engine of its catalog.") from None
        message = f'Delta table "{name}" cannot be read: {one_line(error)}'
        raise ConnectorError(NO_LAKE_TABLE, message) from None


def uri_of(path: str) -> str:
    """The table's address for the library: an absolute local path, or a URL."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return str(Path(unquote(parts.path) if parts.scheme else path).absolute())
    return path.replace("s3a://", "s3://", 1)


def open_table(name: str, path: str, storage: Mapping[str, str], version: int | None = None) -> DeltaTable:
    """Opens a version of a Delta table, the newest one by default. ConnectorError SS545."""
    from deltalake import DeltaTable

    place, options = found_place(path, storage)
    with delta_errors(name, path):
        return DeltaTable(uri_of(place), version=version, storage_options=options or None)


def is_there(path: str, storage: Mapping[str, str]) -> bool:
    """Whether there is a Delta table at the path."""
    from deltalake import DeltaTable

    place, options = found_place(path, storage)
    return DeltaTable.is_deltatable(uri_of(place), options or None)


def file_system(path: str, storage: Mapping[str, str]) -> fs.FileSystem:
    """The files of a table, by their paths in it."""
    return _files_below(*found_place(path, storage))


def _files_below(place: str, options: Mapping[str, str]) -> fs.FileSystem:
    from deltalake.fs import DeltaStorageHandler

    return fs.PyFileSystem(DeltaStorageHandler(uri_of(place), dict(options) or None))


def open_data_file(settings: LakeSettings, location: str) -> pa.NativeFile:
    """Opens a data file of a table. One that the log names by a URL may be in another store, to which the same options
    lead.
    """
    place, options = found_place(settings.location, settings.storage)
    if "://" in location:
        folder, _, location = location.rpartition("/")
        scheme, _, rest = folder.partition("://")
        place = f"{scheme}://{quote(rest)}"
    return _files_below(place, options).open_input_file(location)


# --- columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredColumns(LakeColumns):
    """The columns of a version of a Delta table. ``names``: by name, the name in the files, where the table maps
    columns; ``partitions``: those that are not in files; ``ids``: by name, the field id in the files, where the table
    maps columns by these.
    """

    kind = "Delta"
    names: Mapping[str, str]
    partitions: tuple[str, ...]
    ids: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(table: DeltaTable) -> StoredColumns:
        metadata = table.metadata()
        fields = json.loads(table.schema().to_json())["fields"]
        mapping = metadata.configuration.get(_MAPPING, "none")
        names = {f["name"]: f["metadata"][_PHYSICAL_NAME] for f in fields} if mapping != "none" else {}
        ids = {f["name"]: f["metadata"][_ID] for f in fields} if mapping == "id" else {}
        return StoredColumns(pa.schema(table.schema().to_arrow()), names, tuple(metadata.partition_columns), ids)

    def unsupported(self, shown: str, own: str, declared: DataType) -> Iterator[Diagnostic]:
        if own in self.partitions and kinds.is_binary(self.schema.field(own).type):
            message = f"column {shown} is a partition column of type BINARY, which is not supported"
            yield Diagnostic(UNSUPPORTED_FEATURE, message, hint="Leave the column out of the table.")
        elif self.names and any(member.name == "STRUCT" for member in declared.parts()):
            message = f"column {shown} has fields whose names the Delta table maps"
            hint = "Column mapping is supported for columns, not for fields in them: leave the column out of the table."
            yield Diagnostic(UNSUPPORTED_FEATURE, message, hint=hint)

    def in_files(self, own: str) -> str:
        return self.names.get(own, own)

    def details(self, location: str, values: Mapping[str, str | None], wanted: Sequence[str]) -> FileDetails:
        """What readers need to know of a file. ``values``: those by which it is partitioned, by their names in files.
        Other versions of the table may be partitioned by other columns.
        """
        own = {name: self.own(name) or name for name in wanted}
        stored = {name: self.in_files(there) for name, there in own.items()}
        constants = {name: values[there] for name, there in stored.items() if there in values}
        rest = [name for name in wanted if name not in constants]
        ids = {name: self.ids[own[name]] for name in rest if own[name] in self.ids}
        names = {name: stored[name] for name in rest if stored[name] != name or name in ids}
        return FileDetails(location, constants, names, ids)
