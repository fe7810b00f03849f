"""What ``'type'`` of CREATE CATALOG may be: each kind of catalog with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.catalogs.declaring import expanded
from sqlstream.catalogs.files import Files
from sqlstream.catalogs.in_memory import InMemory
from sqlstream.catalogs.store import Store
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import ConnectorError, Diagnostic, Span, SqlStreamError
from sqlstream.options import NAME, PATH, STRING, Option, check_value, find, hint_of, parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG_CATALOG = "SS536"

StartSpark = Callable[[], "SparkSession"]


@dataclass(frozen=True)
class Opening:
    """The options of a catalog as they were written and with their defaults, and how Spark is started."""

    written: Mapping[str, str]
    values: Mapping[str, Any]
    spark: StartSpark | None


@dataclass(frozen=True)
class CatalogKind:
    name: str
    doc: str
    options: tuple[Option, ...]
    open: Callable[[Opening], Store]


def _default_database(name: str) -> Option:
    return Option("default-database", NAME, "The database that names are looked for in after USE CATALOG.", name)


def _files(opening: Opening) -> Store:
    path = resolved({"path": opening.values["path"]})["path"]
    return Files(Path(path).expanduser().absolute(), opening.values["default-database"])


def _postgres(opening: Opening) -> Store:
    from sqlstream.catalogs.databases import OVER_POSTGRES, DatabaseTables

    written = {key: value for key, value in opening.written.items() if key in ("url", "username", "password")}
    if "base-url" in opening.written:
        written["url"] = f"{opening.written['base-url'].rstrip('/')}/{opening.written.get('database', '')}"
    return DatabaseTables(OVER_POSTGRES, tuple(written.items()), opening.values["default-database"])


def _duckdb(opening: Opening) -> Store:
    from sqlstream.catalogs.databases import OVER_DUCKDB, DatabaseTables

    return DatabaseTables(OVER_DUCKDB, (("path", opening.written["path"]),), opening.values["default-database"])


def _spark(opening: Opening) -> Store:
    from sqlstream.catalogs.spark_tables import SparkTables

    return SparkTables(opening.spark, opening.values["default-database"])


KINDS = (
    CatalogKind(
        "memory",
        "Definitions that live as long as the session, as in the catalog that it begins with.",
        (_default_database("default"),),
        lambda opening: InMemory(opening.values["default-database"]),
    ),
    CatalogKind(
        "file",
        "A folder of SQL files, one per definition, which outlive the session and can be kept in git.",
        (
            Option("path", PATH, "The folder, which need not exist yet.", required=True),
            _default_database("default"),
        ),
        _files,
    ),
    CatalogKind(
        "spark",
        "The tables and views of Spark's own catalog, read and written.",
        (_default_database("default"),),
        _spark,
    ),
    CatalogKind(
        "jdbc",
        "The tables of a PostgreSQL database, for lookups, bounded reads and INSERT; its schemas are databases.",
        (
            Option("url", NAME, "jdbc:postgresql://host:5432/database"),
            Option("base-url", NAME, "The same without the database, which the option database names."),
            Option("database", NAME, "The database behind base-url."),
            Option("username", STRING, "Who logs in."),
            Option("password", STRING, "The password, as ${NAME}."),
            _default_database("public"),
        ),
        _postgres,
    ),
    CatalogKind(
        "duckdb",
        "The tables of a DuckDB file, for lookups and bounded reads; its schemas are databases.",
        (Option("path", PATH, "The file of the database.", required=True), _default_database("main")),
        _duckdb,
    ),
)
_OTHER_NAMES = {"generic_in_memory": "memory"}
"""How Flink calls them."""


def kind_of_catalog(options: Mapping[str, str], name: str, span: Span | None) -> CatalogKind:
    """What ``'type'`` says. ConnectorError SS536."""
    names = [kind.name for kind in KINDS]
    if "type" not in options:
        message, hint = f'catalog "{name}" has no type', f"Add WITH ('type' = '…'); types are {', '.join(names)}."
        raise ConnectorError(WRONG_CATALOG, message, span, hint=hint)
    wanted = _OTHER_NAMES.get(options["type"], options["type"])
    kind = next((kind for kind in KINDS if kind.name == wanted), None)
    if kind is None:
        message = f'there is no type "{options["type"]}" of catalogs'
        raise ConnectorError(WRONG_CATALOG, message, span, hint=hint_of(options["type"], names, "Types"))
    return kind


def mounted(
    name: str,
    options: Mapping[str, str],
    variables: Mapping[str, str],
    spark: StartSpark | None,
    span: Span | None = None,
    spans: Mapping[str, Span] | None = None,
) -> Store:
    """The store that the options of CREATE CATALOG describe. ConnectorErrors SS536, SS503, SS504."""
    kind = kind_of_catalog(options, name, (spans or {}).get("type", span))
    given = {key: expanded(value, variables) for key, value in options.items() if key != "type"}
    wrong = [*_wrong(kind, given, span, spans or {})]
    if wrong:
        raise SqlStreamError.of(wrong)
    return kind.open(Opening(given, parsed(kind.options, given), spark))


def _wrong(
    kind: CatalogKind, given: Mapping[str, str], span: Span | None, spans: Mapping[str, Span]
) -> list[Diagnostic]:
    wrong: list[Diagnostic] = []
    for key, value in given.items():
        option = find(kind.options, key)
        if option is None:
            message = f'catalogs of the type "{kind.name}" have no option "{key}"'
            hint = hint_of(key, (o.key for o in kind.options), "Options")
            wrong.append(Diagnostic(WRONG_CATALOG, message, spans.get(key, span), hint=hint))
        elif (mistake := check_value(option, key, value, spans.get(key, span))) is not None:
            wrong.append(mistake)
    for option in kind.options:
        if option.required and option.key not in given:
            message = f'catalogs of the type "{kind.name}" need the option "{option.key}"'
            wrong.append(Diagnostic(WRONG_CATALOG, message, span, hint=f"Add '{option.key}' = '…': {option.doc}"))
    if kind.name == "jdbc" and not {"url", "base-url"} & given.keys():
        message = 'catalogs of the type "jdbc" need the option "url"'
        wrong.append(
            Diagnostic(WRONG_CATALOG, message, span, hint="Add 'url' = 'jdbc:postgresql://host:5432/database'.")
        )
    return wrong
