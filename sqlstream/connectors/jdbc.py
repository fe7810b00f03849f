"""``jdbc``: Flink's options for tables of PostgreSQL, without a JDBC driver: psycopg reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlstream.connectors.connector import Connector, upserts
from sqlstream.connectors.database_tables import filters
from sqlstream.connectors.postgres import OPTIONS, check_types, lookup, place, require_intact, write_batches
from sqlstream.connectors.postgres_server import of_url
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, WRONG_VALUE, Option, one_of
from sqlstream.planner.catalog import Table

_PREFIX = "jdbc:postgresql://"
_CACHE = "Write CACHE n ROWS [TTL interval] in LOOKUP ASYNC (…)."
_RETRY = "Write RETRY n TIMES FIXED DELAY interval in LOOKUP ASYNC (…)."
_PER_BATCH = "Each micro-batch is one transaction; 'execution.checkpointing.interval' says how often there is one."

_REFUSED = {
    **dict.fromkeys(
        (
            "lookup.cache",
            "lookup.cache.max-rows",
            "lookup.cache.ttl",
            "lookup.cache.caching-missing-key",
            "lookup.partial-cache.max-rows",
            "lookup.partial-cache.expire-after-write",
            "lookup.partial-cache.expire-after-access",
            "lookup.partial-cache.cache-missing-key",
            "lookup.partial-cache.caching-missing-key",
        ),
        _CACHE,
    ),
    "lookup.max-retries": _RETRY,
    **dict.fromkeys(("sink.buffer-flush.max-rows", "sink.buffer-flush.interval", "sink.max-retries"), _PER_BATCH),
    "sink.parallelism": "Rows are copied by the tasks that make them.",
    "connection.max-retry-timeout": "'connect-timeout' says how long to wait for a connection.",
    **dict.fromkeys(
        ("scan.partition.column", "scan.partition.num", "scan.partition.lower-bound", "scan.partition.upper-bound",
         "scan.fetch-size", "scan.auto-commit"),
        "Tables of PostgreSQL are no streams: join them FOR SYSTEM_TIME AS OF.",
    ),
}  # fmt: skip


def check(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    url = table.option("url") or ""
    if not url.startswith("${"):
        yield from _check_url(url, spans.get("url"))
    yield from check_types(table, spans)


def _check_url(url: str, span: Span | None) -> Iterable[Diagnostic]:
    hint = f"Write '{_PREFIX}host:5432/database'."
    if not url.startswith(_PREFIX):
        message = 'option "url" of connector "jdbc" is no address of PostgreSQL, the only database that it knows'
        yield Diagnostic(WRONG_VALUE, message, span, hint=hint)
        return
    try:
        parameters = of_url(url)
    except ValueError as error:
        yield Diagnostic(WRONG_VALUE, f'option "url" cannot be used: {error}', span, hint=hint)
        return
    if not parameters["dbname"]:
        yield Diagnostic(WRONG_VALUE, 'option "url" names no database', span, hint=hint)


CONNECTOR = Connector(
    name="jdbc",
    doc="The connector postgres with Flink's options; of all databases, PostgreSQL only.",
    options=(
        Option("url", NAME, f"The server and the database: {_PREFIX}host:5432/database.", required=True, sink=True),
        Option("driver", one_of("org.postgresql.Driver"), "Accepted; no driver is loaded.", sink=True),
        *OPTIONS,
    ),
    write_batches=write_batches,
    takes_changes=upserts,
    check=check,
    lookup=lookup,
    scans=True,
    filters=filters,
    place=place,
    require_intact=require_intact,
    refused=_REFUSED,
    variables=("password", "url", "username"),
)
