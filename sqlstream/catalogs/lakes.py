"""Catalogs of the types ``iceberg`` and ``delta``: tables of a catalog of Iceberg, and Delta tables in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from sqlstream.catalogs.declaring import with_traits
from sqlstream.catalogs.store import Bound, Database, Entry, Kind, same_name
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import STRING, UNKNOWN, from_arrow

_LOG = "_delta_log"


class Lake(Protocol):
    """Where tables are: their databases, their names, and the definition of each."""

    def databases(self) -> list[str]: ...

    def names(self, database: str) -> list[str]: ...

    def table(self, database: str, name: str) -> Table: ...


@dataclass(frozen=True)
class LakeTables:
    """A catalog ``Store`` that shows the tables of a lake."""

    lake: Lake
    default_database: str
    refusal: str | None = (
        "It shows tables that are there: INSERT into a TEMPORARY TABLE with the connector iceberg or delta makes one."
    )
    keeps_text: bool = False

    def databases(self) -> list[Database]:
        return [*map(Database, self.lake.databases())]

    def put_database(self, database: Database) -> None:
        raise AssertionError(self.refusal)

    def drop_database(self, name: str) -> None:
        raise AssertionError(self.refusal)

    def names(self, database: str, kind: Kind) -> list[str]:
        spelled = same_name(database, self.lake.databases())
        return [] if kind == "function" or spelled is None else self.lake.names(spelled)

    def entry(self, database: str, kind: Kind, name: str) -> Entry | None:
        names = self.names(database, kind)
        spelled = name if name in names else same_name(name, names)
        if spelled is None:
            return None
        return Bound(with_traits(self.lake.table(same_name(database, self.lake.databases()) or database, spelled)))

    def put(self, database: str, kind: Kind, entry: Entry, *, new: bool = False) -> None:
        raise AssertionError(self.refusal)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        raise AssertionError(self.refusal)

    def copy(self) -> LakeTables:
        return self


def _columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns as ours. Types that have no equal here are read as STRING, and a query that reads one is refused."""
    kinds = ((f, from_arrow(f.type)) for f in schema)
    return tuple(Column(f.name, STRING if kind == UNKNOWN else kind, f.nullable) for f, kind in kinds)


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog of pyiceberg. ``properties``: as written, with ``${NAME}`` for variables of the environment."""

    properties: tuple[tuple[str, str], ...]

    @property
    def _resolved(self) -> Mapping[str, str]:
        return resolved(dict(self.properties))

    def databases(self) -> list[str]:
        from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors, require_pyiceberg

        require_pyiceberg()
        with iceberg_errors(dict(self.properties).get("name", "default"), "catalog"):
            return [".".join(name) for name in catalog_of(self._resolved).list_namespaces()]

    def names(self, database: str) -> list[str]:
        from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors

        with iceberg_errors(database, "database"):
            return [identifier[-1] for identifier in catalog_of(self._resolved).list_tables(database)]

    def table(self, database: str, name: str) -> Table:
        from sqlstream.connectors.lakes.iceberg_columns import StoredColumns, open_table

        stored = open_table(name, f"{database}.{name}", self._resolved)
        required = {field.name for field in stored.schema().fields if field.required}
        schema = pa.schema([f.with_nullable(f.name not in required) for f in StoredColumns.of(stored).schema])
        ids = {field.field_id: field.name for field in stored.schema().fields}
        key = tuple(ids[number] for number in stored.schema().identifier_field_ids if number in ids)
        options = [("table-name", f"{database}.{name}"), *((f"catalog.{k}", v) for k, v in self.properties)]
        return Table(name, _columns(schema), "iceberg", tuple(options), primary_key=key)


@dataclass(frozen=True)
class DeltaFolder:
    """A local folder of Delta tables: those in it are in the database ``default``, and other folders are databases."""

    path: str
    default: str

    @property
    def _root(self) -> Path:
        root = Path(resolved({"path": self.path})["path"]).expanduser().absolute()
        if not root.is_dir():
            hint = 'Correct the option "path".'
            raise ConnectorError("SS545", f'folder "{self.path}" of a catalog does not exist', hint=hint)
        return root

    def databases(self) -> list[str]:
        folders = (folder for folder in sorted(self._root.iterdir()) if folder.is_dir())
        others = [f.name for f in folders if not (f / _LOG).is_dir() and not f.name.startswith(("_", "."))]
        return [self.default, *(name for name in others if name != self.default)]

    def _folder(self, database: str) -> Path:
        return self._root if database == self.default else self._root / database

    def names(self, database: str) -> list[str]:
        return sorted(log.parent.name for log in self._folder(database).glob(f"*/{_LOG}"))

    def table(self, database: str, name: str) -> Table:
        from sqlstream.connectors.lakes.delta_columns import open_table, require_deltalake

        require_deltalake()
        path = str(self._folder(database) / name)
        schema = pa.schema(open_table(name, path, {}).schema().to_arrow())
        return Table(name, _columns(schema), "delta", (("path", path),))
