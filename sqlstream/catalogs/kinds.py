"""The types of catalogs: what ``'type'`` of CREATE CATALOG may be, and which options each type has.

Packages add types as entry points of the group ``sqlstream.catalogs``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.catalogs.declaring import expanded
from sqlstream.catalogs.files import Files
from sqlstream.catalogs.store import InMemory, Store
from sqlstream.connectors.secrets import resolved
from sqlstream.entry_points import NotLoaded, instance_of, package_of, registered
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.options import NAME, PATH, STRING, Option, check_value, find, hint_of, one_of, parsed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pyspark.sql import SparkSession


WRONG_CATALOG = "SS536"
GROUP = "sqlstream.catalogs"

StartSpark = Callable[[], "SparkSession"]


@dataclass(frozen=True)
class Opening:
    """What is needed to open a catalog: its options as written, and as parsed values with defaults. ``spark``: starts
    Spark; None outside of a session.
    """

    written: Mapping[str, str]
    values: Mapping[str, Any]
    spark: StartSpark | None


class CatalogType(ABC):
    """A kind of catalog that CREATE CATALOG can create.

    ``name``: the value of the option ``'type'``. ``doc``: one sentence for the documentation. ``options``: all other
    keys of CREATE CATALOG.
    """

    name: ClassVar[str]
    doc: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()

    @abstractmethod
    def open(self, opening: Opening) -> Store:
        """Returns the store with the catalog's definitions or tables. Option values may still contain ``${NAME}``: see
        ``connectors.secrets``.
        """

    def check(self, given: Mapping[str, str], span: Span | None) -> Iterable[Diagnostic]:
        """Checks what depends on several options and returns the errors. ``span``: the place of the catalog's name in
        the statement.
        """
        return ()


def _default_database(name: str) -> Option:
    return Option("default-database", NAME, "The database that names are looked for in after USE CATALOG.", name)


class MemoryCatalog(CatalogType):
    """Catalogs whose definitions exist only in the session."""

    name = "memory"
    doc = "Definitions that live as long as the session, as in the catalog that it begins with."
    options = (_default_database("default"),)

    def open(self, opening: Opening) -> Store:
        return InMemory(opening.values["default-database"])


class FileCatalog(CatalogType):
    """Catalogs whose definitions are stored as files in a folder."""

    name = "file"
    doc = "A folder of SQL files, one per definition, which outlive the session and can be kept in git."
    options = (
        Option("path", PATH, "The folder, which need not exist yet.", required=True),
        _default_database("default"),
    )

    def open(self, opening: Opening) -> Store:
        path = resolved({"path": opening.values["path"]})["path"]
        return Files(Path(path).expanduser().absolute(), opening.values["default-database"])


def _existing(kind: str, opening: Opening, written: Mapping[str, str] = MappingProxyType({})) -> Store:
    """The existing tables of a database, or of Spark. ``written``: the options of the connector."""
    from sqlstream.catalogs import databases  # PyArrow and what reads databases, which few sessions need

    default = opening.values["default-database"]
    if kind == "spark":
        return databases.SparkTables(opening.spark, default)
    system = databases.OVER_POSTGRES if kind == "jdbc" else databases.OVER_DUCKDB
    return databases.DatabaseTables(system, tuple(written.items()), default)


class SparkCatalog(CatalogType):
    """Catalogs that show Spark's tables."""

    name = "spark"
    doc = "The tables and views of Spark's own catalog, read and written."
    options = (_default_database("default"),)

    def open(self, opening: Opening) -> Store:
        return _existing("spark", opening)


class JdbcCatalog(CatalogType):
    """Catalogs that show the tables of a PostgreSQL database."""

    name = "jdbc"
    doc = "The tables of a PostgreSQL database, for lookups, bounded reads and INSERT; its schemas are databases."
    options = (
        Option("url", NAME, "jdbc:postgresql://host:5432/database"),
        Option("base-url", NAME, "The same without the database, which the option database names."),
        Option("database", NAME, "The database behind base-url."),
        Option("username", STRING, "Who logs in."),
        Option("password", STRING, "The password, as ${NAME}."),
        _default_database("public"),
    )

    def open(self, opening: Opening) -> Store:
        written = {key: value for key, value in opening.written.items() if key in ("url", "username", "password")}
        if "base-url" in opening.written:
            written["url"] = f"{opening.written['base-url'].rstrip('/')}/{opening.written.get('database', '')}"
        return _existing("jdbc", opening, written)

    def check(self, given: Mapping[str, str], span: Span | None) -> Iterable[Diagnostic]:
        if not {"url", "base-url"} & given.keys():
            message = 'catalogs of the type "jdbc" need the option "url"'
            yield Diagnostic(WRONG_CATALOG, message, span, hint="Add 'url' = 'jdbc:postgresql://host:5432/database'.")


class DuckDbCatalog(CatalogType):
    """Catalogs that show the tables in a DuckDB file."""

    name = "duckdb"
    doc = "The tables of a DuckDB file, for lookups and bounded reads; its schemas are databases."
    options = (Option("path", PATH, "The file of the database.", required=True), _default_database("main"))

    def open(self, opening: Opening) -> Store:
        return _existing("duckdb", opening, {"path": opening.written["path"]})


class IcebergCatalog(CatalogType):
    """Catalogs that show the tables of a catalog of Iceberg."""

    name = "iceberg"
    doc = "The tables of a catalog of Iceberg, read, looked up and written; its namespaces are databases."
    options = (
        Option("catalog-type", NAME, "Its kind: sql, rest, hive, glue or dynamodb.", "sql"),
        Option("uri", STRING, "Its address: https://…, or of an SQL database, such as sqlite:////data/catalog.db."),
        Option("warehouse", STRING, "Where tables are that it makes."),
        Option("catalog.#", STRING, "Any other property of pyiceberg's catalog and store, such as catalog.token."),
        _default_database("default"),
    )

    def open(self, opening: Opening) -> Store:
        from sqlstream.catalogs.lakes import IcebergCatalog as Tables
        from sqlstream.catalogs.lakes import LakeTables

        properties = {"type": opening.values["catalog-type"]}
        properties |= {key: opening.written[key] for key in ("uri", "warehouse") if key in opening.written}
        others = {k.removeprefix("catalog."): v for k, v in opening.written.items() if k.startswith("catalog.")}
        return LakeTables(Tables(tuple((properties | others).items())), opening.values["default-database"])


class DeltaCatalog(CatalogType):
    """Catalogs that show the Delta tables in a folder, or in a Unity catalog."""

    name = "delta"
    doc = (
        "The Delta tables in a folder, whose folders of tables are databases, or in a Unity catalog, whose schemas "
        "are; read, looked up and written."
    )
    options = (
        Option("catalog-type", one_of("folder", "unity"), "Where tables are listed.", "folder"),
        Option("path", PATH, "The folder of the tables."),
        Option("uri", STRING, "The address of a server of Unity's REST API: https://…."),
        Option("warehouse", NAME, "The name of the catalog there."),
        Option("catalog.token", STRING, "What the server knows us by, best as ${NAME}."),
        Option("storage.#", STRING, "An option of the object store as deltalake has it, besides the keys of Unity."),
        _default_database("default"),
    )
    _NEEDED: ClassVar[Mapping[str, tuple[str, ...]]] = {"folder": ("path",), "unity": ("uri", "warehouse")}

    def check(self, given: Mapping[str, str], span: Span | None) -> Iterable[Diagnostic]:
        kind = given.get("catalog-type", "folder").strip().lower()
        for key in self._NEEDED.get(kind, ()):
            if key not in given:
                message = f"catalogs of the type \"delta\" with 'catalog-type' = '{kind}' need the option \"{key}\""
                doc = next(option.doc for option in self.options if option.key == key)
                yield Diagnostic(WRONG_CATALOG, message, span, hint=f"Add '{key}' = '…': {doc}")
        others = {"folder": ("uri", "warehouse", "catalog.token", "storage."), "unity": ("path",)}.get(kind, ())
        for key in (key for key in given if key.startswith(others or "\0")):
            message = f"catalogs of the type \"delta\" with 'catalog-type' = '{kind}' have no option \"{key}\""
            yield Diagnostic(WRONG_CATALOG, message, span, hint="Leave it out, or choose the other 'catalog-type'.")

    def open(self, opening: Opening) -> Store:
        from sqlstream.catalogs.lakes import DeltaFolder, LakeTables, UnityTables

        default, written = opening.values["default-database"], opening.written
        if opening.values["catalog-type"] == "folder":
            return LakeTables(DeltaFolder(written["path"], default), default)
        storage = tuple((key, value) for key, value in written.items() if key.startswith("storage."))
        tables = UnityTables(written["uri"], written["warehouse"], written.get("catalog.token"), storage)
        return LakeTables(tables, default)


_TYPES = (
    MemoryCatalog(), FileCatalog(), SparkCatalog(), JdbcCatalog(), DuckDbCatalog(), IcebergCatalog(), DeltaCatalog(),
)  # fmt: skip
BUILT_IN: Mapping[str, CatalogType] = {kind.name: kind for kind in _TYPES}
_OTHER_NAMES = {"generic_in_memory": "memory"}
"""How Flink calls them."""


def catalog_type(options: Mapping[str, str], name: str, span: Span | None) -> CatalogType:
    """Returns the catalog type that the option ``'type'`` names. Raises ConnectorError SS536 if it is missing,
    unknown, or cannot be loaded.
    """
    if "type" not in options:
        names = ", ".join((*BUILT_IN, *registered(GROUP)))
        message, hint = f'catalog "{name}" has no type', f"Add WITH ('type' = '…'); types are {names}."
        raise ConnectorError(WRONG_CATALOG, message, span, hint=hint)
    wanted = _OTHER_NAMES.get(options["type"], options["type"])
    if wanted in BUILT_IN:
        return BUILT_IN[wanted]
    point = registered(GROUP).get(wanted)
    if point is None:
        message = f'there is no type "{options["type"]}" of catalogs'
        hint = hint_of(options["type"], (*BUILT_IN, *registered(GROUP)), "Types")
        raise ConnectorError(WRONG_CATALOG, message, span, hint=hint)
    try:
        kind = instance_of(point)
    except NotLoaded as error:
        raise _unusable(point, str(error), span) from error
    if not isinstance(kind, CatalogType):
        raise _unusable(point, f"{point.value} is no sqlstream.catalogs.kinds.CatalogType", span)
    return kind


def _unusable(point: EntryPoint, reason: str, span: Span | None) -> ConnectorError:
    message = f'type "{point.name}" of catalogs, of package "{package_of(point)}", cannot be loaded'
    hint = f'Correct or remove the package "{package_of(point)}".'
    return ConnectorError(WRONG_CATALOG, message, span, detail=f"{reason.rstrip('.')}.", hint=hint)


def mounted(
    name: str,
    options: Mapping[str, str],
    variables: Mapping[str, str],
    spark: StartSpark | None,
    span: Span | None = None,
    spans: Mapping[str, Span] | None = None,
) -> Store:
    """Opens the catalog described by the options of CREATE CATALOG and returns its store. Raises ConnectorError SS536,
    SS503 or SS504.

    ``variables``: values for ``${…}``. ``span`` and ``spans``: places of the name and of the options in the SQL text.
    """
    kind = catalog_type(options, name, (spans or {}).get("type", span))
    given = {key: expanded(value, variables) for key, value in options.items() if key != "type"}
    wrong = [*_wrong_options(kind, given, span, spans or {}), *kind.check(given, span)]
    if wrong:
        raise SqlStreamError.of(wrong)
    return kind.open(Opening(given, parsed(kind.options, given), spark))


def _wrong_options(
    kind: CatalogType, given: Mapping[str, str], span: Span | None, spans: Mapping[str, Span]
) -> Iterable[Diagnostic]:
    for key, value in given.items():
        option = find(kind.options, key)
        if option is None:
            message = f'catalogs of the type "{kind.name}" have no option "{key}"'
            hint = hint_of(key, (o.key for o in kind.options), "Options")
            yield Diagnostic(WRONG_CATALOG, message, spans.get(key, span), hint=hint)
        elif (mistake := check_value(option, key, value, spans.get(key, span))) is not None:
            yield mistake
    for option in kind.options:
        if option.required and option.key not in given:
            message = f'catalogs of the type "{kind.name}" need the option "{option.key}"'
            yield Diagnostic(WRONG_CATALOG, message, span, hint=f"Add '{option.key}' = '…': {option.doc}")
