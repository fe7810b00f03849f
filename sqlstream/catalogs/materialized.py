"""The table of a materialized view: from a definition with typed columns to where the rows of its query are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from sqlstream.catalogs.declaring import declared_table
from sqlstream.errors import UnsupportedError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Catalog, Table

NOT_KEPT_THERE = "SS690"

KINDS = ("MATERIALIZED VIEW", "MATERIALIZED TABLE", "STREAMING TABLE")
"""Three words for the same: PostgreSQL's, Flink's and Spark's."""

VIEWS_URL = "SQLSTREAM_VIEWS_URL"
"""The environment variable with the address of the PostgreSQL server that views are kept in by default."""

CONNECTORS = ("filesystem", "postgres")
"""Those whose tables can be read while a job writes them, and show whole epochs only."""

_FIRST_DATABASE = ("default_catalog", "default_database")
_ADDRESS = ("url", "host", "database")


def materialized_table(
    statement: nodes.CreateMaterializedView,
    catalog: Catalog,
    name: str,
    path: tuple[str, str, str],
    variables: Mapping[str, str] | None = None,
) -> Table:
    """The table ``name`` of a definition, of which all columns have types."""
    columns = tuple(c for c in statement.columns if isinstance(c, nodes.PhysicalColumn))
    assert len(columns) == len(statement.columns), "names alone are given types when a view is created"
    create = nodes.CreateTable(
        statement.name, columns, None, statement.primary_key, _options(statement, path), comment=statement.comment,
        partitioned_by=statement.partitioned_by, span=statement.span,
    )  # fmt: skip
    table = declared_table(create, catalog, name, variables)
    # A group may have NULL as its key, unlike a row of a table with a PRIMARY KEY.
    pairs = zip(table.columns, columns, strict=True)
    own = tuple(replace(column, nullable=written.nullable) for column, written in pairs)
    return replace(table, materialized=True, columns=own)


def _options(statement: nodes.CreateMaterializedView, path: tuple[str, str, str]) -> tuple[nodes.Option, ...]:
    """Those of WITH, and what they leave out. UnsupportedError SS690 for other connectors."""
    given = {option.key: option for option in statement.options}
    wanted = given["connector"].value if "connector" in given else "postgres"
    if wanted not in CONNECTORS:
        message = f'rows of a {statement.kind.lower()} are not kept by the connector "{wanted}"'
        hint = f"Its rows go to postgres or filesystem; INSERT INTO writes to a table of {wanted}."
        raise UnsupportedError(NOT_KEPT_THERE, message, given["connector"].span, hint=hint)
    added = dict(_defaults(wanted, given.keys(), path))
    more = (nodes.Option(key, value, span=statement.name.span) for key, value in added.items() if key not in given)
    return (*statement.options, *more)


def _defaults(connector: str, given: Collection[str], path: tuple[str, str, str]) -> Iterator[tuple[str, str]]:
    yield "connector", connector
    if connector == "filesystem":
        yield "format", "parquet"
        return
    if not any(key in given for key in _ADDRESS):
        yield "url", f"${{{VIEWS_URL}}}"
    yield "table-name", stored_name(path)


def stored_name(path: tuple[str, str, str]) -> str:
    """The table in PostgreSQL; views of other databases than the first one have a schema of that name."""
    catalog, database, name = path
    first = (catalog.casefold(), database.casefold()) == _FIRST_DATABASE
    return _quoted(name) if first else f"{_quoted(database)}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return name if '"' not in name and "." not in name else '"' + name.replace('"', '""') + '"'


def has_types(statement: nodes.CreateMaterializedView) -> bool:
    """Whether the definition says all of the table, as those that a catalog keeps."""
    return bool(statement.columns) and all(isinstance(c, nodes.PhysicalColumn) for c in statement.columns)
