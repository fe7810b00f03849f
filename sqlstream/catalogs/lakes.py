"""Catalogs of the types ``iceberg`` and ``delta``: tables of a catalog of Iceberg, and Delta tables in a folder. What
is made in them is made in the lake: no definition is stored elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa

from sqlstream.catalogs.declaring import with_traits
from sqlstream.catalogs.store import Bound, Database, Entry, Kind, Store, Trial, same_name
from sqlstream.connectors import connector
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import BindError, ConnectorError, repeating
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import STRING, UNKNOWN, from_arrow

if TYPE_CHECKING:
    from sqlstream.connectors.lakes.table import LakeTable
    from sqlstream.connectors.lakes.unity import UnityServer

_LOG = "_delta_log"
NOT_KEPT = repeating("SS246")


class Lake(Protocol):
    """Where tables are: their databases, their names, and the definition of each. ``kind`` is their connector,
    ``properties_of_new`` the beginning of options that a new table keeps.
    """

    kind: ClassVar[str]
    properties_of_new: ClassVar[str]

    def databases(self) -> list[str]: ...

    def names(self, database: str) -> list[str]: ...

    def table(self, database: str, name: str) -> Table: ...

    def options(self, database: str, name: str) -> dict[str, str]:
        """The options of a table that say where it is."""
        ...

    def make(self, table: Table) -> None:
        """Creates a table in the lake."""
        ...

    def drop(self, database: str, name: str) -> None: ...

    def make_database(self, name: str) -> None: ...

    def drop_database(self, name: str) -> None: ...


@dataclass(frozen=True)
class LakeTables:
    """A catalog ``Store`` that shows the tables of a lake, and makes them there."""

    lake: Lake
    default_database: str
    refusal: str | None = None
    keeps_text: bool = False

    def databases(self) -> list[Database]:
        return [*map(Database, self.lake.databases())]

    def put_database(self, database: Database) -> None:
        if same_name(database.name, self.lake.databases()) is None:
            self.lake.make_database(database.name)

    def drop_database(self, name: str) -> None:
        self.lake.drop_database(same_name(name, self.lake.databases()) or name)

    def options_of_new(self, database: str, name: str) -> dict[str, str]:
        """The options that CREATE TABLE need not name, because the catalog knows them."""
        spelled = same_name(database, self.lake.databases()) or database
        return {"connector": self.lake.kind, **self.lake.options(spelled, name)}

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
        table = entry.item if isinstance(entry, Bound) else None
        if not isinstance(table, Table):
            raise _refused("holds tables alone", "Create views and functions in another catalog, or TEMPORARY ones.")
        if not new:
            hint = "Let the sink add columns ('sink.schema-evolution' = 'add-columns'), or DROP the table at first."
            raise _refused("changes no definition of a table", hint)
        self._require_kept(table)
        self.lake.make(replace(table, name=entry.name))

    def _require_kept(self, table: Table) -> None:
        """Raises BindError SS246 for a part of the definition that the lake would forget."""
        known = {*self.options_of_new("", ""), "partition-by", "sort-by"}
        kept = (self.lake.properties_of_new, "catalog.")
        forgotten = next((key for key, _ in table.options if key not in known and not key.startswith(kept)), None)
        what = (
            "a watermark" if table.watermark is not None
            else "computed or metadata columns" if len(table.physical_columns) < len(table.columns)
            else f'the option "{forgotten}"' if forgotten is not None
            else None
        )  # fmt: skip
        if what is not None:
            hint = (
                "Declare it in a TEMPORARY TABLE of the same place, or leave it out; /*+ OPTIONS(…) */ after a table's "
                "name gives a query options."
            )
            raise _refused(f"does not keep {what}", hint)

    def remove(self, database: str, kind: Kind, name: str) -> None:
        spelled = same_name(database, self.lake.databases()) or database
        self.lake.drop(spelled, same_name(name, self.lake.names(spelled)) or name)

    def copy(self) -> Store:
        return Trial(self)


def _refused(what: str, hint: str) -> BindError:
    return BindError(NOT_KEPT, f"the catalog of a lake {what}", hint=hint)


def _columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns as ours. Types that have no equal here are read as STRING, and a query that reads one is refused."""
    kinds = ((f, from_arrow(f.type)) for f in schema)
    return tuple(Column(f.name, STRING if kind == UNKNOWN else kind, f.nullable) for f, kind in kinds)


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog of pyiceberg. ``properties``: as written, with ``${NAME}`` for variables of the environment."""

    kind: ClassVar[str] = "iceberg"
    properties_of_new: ClassVar[str] = "table."
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
        from sqlstream.connectors.lakes.iceberg_partitions import partition_texts

        stored = open_table(name, f"{database}.{name}", self._resolved)
        required = {field.name for field in stored.schema().fields if field.required}
        schema = pa.schema([f.with_nullable(f.name not in required) for f in StoredColumns.of(stored).schema])
        ids = {field.field_id: field.name for field in stored.schema().fields}
        key = tuple(ids[number] for number in stored.schema().identifier_field_ids if number in ids)
        options = self.options(database, name) | _partitions(", ".join(partition_texts(stored)))
        return Table(name, _columns(schema), self.kind, tuple(options.items()), primary_key=key)

    def options(self, database: str, name: str) -> dict[str, str]:
        return {"table-name": f"{database}.{name}", **{f"catalog.{k}": v for k, v in self.properties}}

    def make(self, table: Table) -> None:
        from sqlstream.connectors.lakes.iceberg_tables import prepared

        kind = lake_connector(table)
        values = kind.resolved_values(table)
        prepared(table, values, kind.place(values)[1])

    def drop(self, database: str, name: str) -> None:
        from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors

        with iceberg_errors(name):
            catalog_of(self._resolved).drop_table(f"{database}.{name}")

    def make_database(self, name: str) -> None:
        from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors

        with iceberg_errors(name, "database"):
            catalog_of(self._resolved).create_namespace(name)

    def drop_database(self, name: str) -> None:
        from sqlstream.connectors.lakes.iceberg_columns import catalog_of, iceberg_errors

        with iceberg_errors(name, "database"):
            for identifier in catalog_of(self._resolved).list_tables(name):
                catalog_of(self._resolved).drop_table(identifier)
            catalog_of(self._resolved).drop_namespace(name)


@dataclass(frozen=True)
class DeltaFolder:
    """A local folder of Delta tables: those in it are in the database ``default``, and other folders are databases."""

    kind: ClassVar[str] = "delta"
    properties_of_new: ClassVar[str] = "delta."
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
        return _delta_table(name, self.options(database, name))

    def options(self, database: str, name: str) -> dict[str, str]:
        return {"path": str(self._folder(database) / name)}

    def make(self, table: Table) -> None:
        from sqlstream.connectors.lakes.delta_tables import prepared

        prepared(table, lake_connector(table).resolved_values(table))

    def drop(self, database: str, name: str) -> None:
        raise _refused("removes no Delta table", f"Remove its folder: {self._folder(database) / name}")

    def make_database(self, name: str) -> None:
        (self._root / name).mkdir()

    def drop_database(self, name: str) -> None:
        raise _refused("removes no folder", f"Remove it yourself: {self._folder(name)}")


@dataclass(frozen=True)
class UnityTables:
    """The Delta tables of a Unity catalog, whose schemas are databases. ``uri``, ``token`` and ``storage``, the options
    of the store: as written, with ``${NAME}`` for variables of the environment.
    """

    kind: ClassVar[str] = "delta"
    properties_of_new: ClassVar[str] = "delta."
    uri: str
    catalog: str
    token: str | None = field(default=None, repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def _server(self) -> UnityServer:
        from sqlstream.connectors.lakes.unity import UnityServer

        values = resolved({"uri": self.uri, "catalog.token": self.token})
        return UnityServer(values["uri"], values["catalog.token"])

    def databases(self) -> list[str]:
        return self._server.schemas(self.catalog)

    def names(self, database: str) -> list[str]:
        return self._server.tables(self.catalog, database)

    def table(self, database: str, name: str) -> Table:
        return _delta_table(name, self.options(database, name))

    def options(self, database: str, name: str) -> dict[str, str]:
        from sqlstream.connectors.lakes.unity import SCHEME, TOKEN, WORKSPACE

        own = {"path": f"{SCHEME}{self.catalog}.{database}.{name}", f"storage.{WORKSPACE}": self.uri}
        return own | ({} if self.token is None else {f"storage.{TOKEN}": self.token}) | dict(self.storage)

    def make(self, table: Table) -> None:
        raise _refused("makes no tables in Unity", "Create the table by an engine of Unity; INSERT writes into it.")

    def drop(self, database: str, name: str) -> None:
        raise _refused("removes no tables in Unity", "Drop it by an engine of Unity.")

    def make_database(self, name: str) -> None:
        raise _refused("makes no schemas in Unity", "Create it by an engine of Unity.")

    def drop_database(self, name: str) -> None:
        raise _refused("removes no schemas in Unity", "Drop it by an engine of Unity.")


def _delta_table(name: str, options: dict[str, str]) -> Table:
    """The definition of a Delta table. ``options``: where it is, as written."""
    from sqlstream.connectors.lakes.delta_columns import PRIMARY_KEY, open_table, require_deltalake
    from sqlstream.connectors.stores.options import prefixed

    require_deltalake()
    known = resolved(options)
    stored = open_table(name, known["path"], prefixed(known, "storage."))
    metadata = stored.metadata()
    whole = options | _partitions(", ".join(metadata.partition_columns))
    key = tuple(json.loads(metadata.configuration.get(PRIMARY_KEY, "[]")))
    columns = _columns(pa.schema(stored.schema().to_arrow()))
    return Table(name, columns, "delta", tuple(whole.items()), primary_key=key)


def _partitions(text: str) -> dict[str, str]:
    return {"partition-by": text} if text else {}


def lake_connector(table: Table) -> LakeTable:
    """The connector of a table of a lake."""
    from sqlstream.connectors.lakes.table import LakeTable

    kind = connector(table.connector)
    assert isinstance(kind, LakeTable), table.connector
    return kind
