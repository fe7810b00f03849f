"""How OpenLineage names the data of tables, so that what several tools read and write is one dataset.

https://openlineage.io/docs/spec/naming has the rules. Of options only what is no secret is read, so ``${NAME}`` stays
as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlstream.connectors.secrets import masked
from sqlstream.planner.catalog import Table


@dataclass(frozen=True)
class DatasetName:
    """The name of a dataset in its namespace, which is where it is kept."""

    namespace: str
    name: str


Options = Mapping[str, str]


def dataset_name(table: Table, namespace: str) -> DatasetName:
    """How OpenLineage names the data of a table. ``namespace``: that of tables that are kept nowhere else, such as
    those of ``datagen``.
    """
    options = dict(masked(table.options))
    named = _NAMED.get(table.connector)
    if named is not None:
        return named(options, table)
    if "properties.bootstrap.servers" in options:
        first = options["properties.bootstrap.servers"].partition(",")[0].strip()
        return DatasetName(f"kafka://{first}", options.get("topic", options.get("topic-pattern", table.name)))
    url = options.get("url", "")
    if "://" in url:
        return DatasetName(_authority(url), urlsplit(url).path or "/")
    return DatasetName(namespace, table.name)


# --- files ---

_SCHEMES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""Names of Hadoop's clients of a store, and that of the store."""

_CONTAINERS = ("abfs", "abfss")
"""Stores whose containers stand where other addresses have a user."""

_OBJECTS = ("s3", "gs", *_CONTAINERS)
"""Stores whose names of objects begin with no slash."""


def _of_path(options: Options, table: Table) -> DatasetName:
    path = options.get("path", table.name)
    scheme, separator, _ = path.partition("://")
    if not separator or scheme == "file":
        return DatasetName("file", _local(path))
    parts = urlsplit(path)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    place = parts.netloc if scheme in _CONTAINERS else parts.netloc.rpartition("@")[2]
    name = parts.path.rstrip("/")
    return DatasetName(f"{scheme}://{place}", (name.lstrip("/") if scheme in _OBJECTS else name) or "/")


def _local(path: str) -> str:
    return str(Path(unquote(urlsplit(path).path) if path.startswith("file:") else path).absolute())


# --- databases ---


def _of_postgres(options: Options, table: Table) -> DatasetName:
    url = options.get("url", "").removeprefix("jdbc:")
    parts = urlsplit(url)
    host = parts.hostname or options.get("host") or options.get("hostname", "localhost")
    database = parts.path.strip("/") or options.get("database") or options.get("database-name", "")
    name = options.get("table-name", table.name)
    qualified = name if "." in name else f"{options.get('schema-name', 'public')}.{name}"
    return DatasetName(f"postgres://{host}:{_port(url) or options.get('port', '5432')}", f"{database}.{qualified}")


def _of_mysql(options: Options, table: Table) -> DatasetName:
    place = f"mysql://{options.get('hostname', 'localhost')}:{options.get('port', '3306')}"
    return DatasetName(place, f"{options.get('database-name', '')}.{options.get('table-name', table.name)}")


def _of_file_database(options: Options, table: Table) -> DatasetName:
    place = f"{table.connector}://{_local(options.get('path', ''))}"
    return DatasetName(place, options.get("table-name", table.name))


def _of_iceberg(options: Options, table: Table) -> DatasetName:
    """In its catalog; where that is not said, in the warehouse."""
    name = options.get("table-name", table.name)
    address = options.get("catalog.uri") or options.get("catalog.warehouse")
    if address is None:
        return DatasetName(f"iceberg://{options.get('catalog.name', 'default')}", name)
    if "://" not in address:
        return DatasetName(f"file://{_local(address)}", name)
    return DatasetName(_authority(address) if urlsplit(address).netloc else address, name)


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:  # a variable
        return None


def _authority(url: str) -> str:
    """Scheme and host of a URL, without a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


_NAMED: Mapping[str, Callable[[Options, Table], DatasetName]] = {
    "filesystem": _of_path,
    "delta": _of_path,
    "iceberg": _of_iceberg,
    "postgres": _of_postgres,
    "jdbc": _of_postgres,
    "postgres-cdc": _of_postgres,
    "mysql-cdc": _of_mysql,
    "duckdb": _of_file_database,
    "sqlite": _of_file_database,
}
