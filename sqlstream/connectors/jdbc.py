"""``jdbc``: Flink's options for tables of PostgreSQL, without a JDBC driver: psycopg reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from sqlstream.connectors.postgres import OPTIONS, Postgres, check_types
from sqlstream.connectors.postgres_server import of_url
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import BOOLEAN, DURATION, MISSING_OPTION, NAME, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.binder.lookups import (
    CACHE,
    MISSES,
    OLDER_MISSES,
    OLDER_ROWS,
    OLDER_TTL,
    PARTIAL,
    RETRIES,
    ROWS,
    TTL,
)
from sqlstream.planner.catalog import Table

_PREFIX = "jdbc:postgresql://"
_AFTER_WRITE = f"'{TTL}' says after which time answers are forgotten."
_PER_BATCH = "Each micro-batch is one transaction; 'execution.checkpointing.interval' says how often there is one."

_REFUSED = {
    "lookup.partial-cache.expire-after-access": _AFTER_WRITE,
    "lookup.partial-cache.caching-missing-key": f"It is '{MISSES}'.",
    **dict.fromkeys(("sink.buffer-flush.max-rows", "sink.buffer-flush.interval", "sink.max-retries"), _PER_BATCH),
    "sink.parallelism": "Rows are copied by the tasks that make them.",
    "connection.max-retry-timeout": "'connect-timeout' says how long to wait for a connection.",
    **dict.fromkeys(
        ("scan.partition.column", "scan.partition.num", "scan.partition.lower-bound", "scan.partition.upper-bound",
         "scan.fetch-size", "scan.auto-commit"),
        "A query over finished data reads the table whole, in one task.",
    ),
}  # fmt: skip


def _check_cache(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Options of a cache that is not there, or that would have no bound."""
    given = dict(table.options)
    partial = (given.get(CACHE) or "").strip().upper() == PARTIAL
    if partial and ROWS not in given and OLDER_ROWS not in given:
        message = f"'{CACHE}' = '{PARTIAL}' needs the option \"{ROWS}\""
        yield Diagnostic(MISSING_OPTION, message, spans.get(CACHE), hint="A cache has a most number of rows.")
    for key in (ROWS, TTL, MISSES) if not partial else ():
        if key in given:
            message = f"option \"{key}\" needs '{CACHE}' = '{PARTIAL}'"
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{CACHE}' = '{PARTIAL}' to WITH.")
    for key in (OLDER_TTL, OLDER_MISSES):
        if key in given and OLDER_ROWS not in given:
            message = f'option "{key}" needs the option "{OLDER_ROWS}"'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint="A cache has a most number of rows.")


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


class Jdbc(Postgres):
    """Differs from ``Postgres`` in options and checks only."""

    name = "jdbc"
    doc = "The connector postgres with Flink's options; of all databases, PostgreSQL only."
    options: ClassVar[tuple[Option, ...]] = (
        Option("url", NAME, f"The server and the database: {_PREFIX}host:5432/database.", required=True, sink=True),
        Option("driver", one_of("org.postgresql.Driver"), "Accepted; no driver is loaded.", sink=True),
        *OPTIONS,
        Option(
            CACHE,
            one_of("NONE", PARTIAL, planned=("full",)),
            "Whether lookups remember answers. LOOKUP ASYNC (CACHE …) of a join says so, too, and counts.",
            "NONE",
        ),
        Option(ROWS, integer(1), "Of how many keys the cache remembers the rows."),
        Option(TTL, DURATION, "After which time answers are forgotten; not given, never."),
        Option(MISSES, BOOLEAN, "Whether it is remembered, too, that a key has no rows.", "true"),
        Option(OLDER_ROWS, integer(1), f"The older name of {ROWS}, which needs no {CACHE}."),
        Option(OLDER_TTL, DURATION, f"The older name of {TTL}."),
        Option(OLDER_MISSES, BOOLEAN, f"The older name of {MISSES}."),
        Option(RETRIES, integer(), "How often a lookup that fails asks again, each time after a second.", "0"),
    )
    refused = _REFUSED
    variables: ClassVar[tuple[str, ...]] = ("password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        url = table.option("url") or ""
        if not url.startswith("${"):
            yield from _check_url(url, spans.get("url"))
        yield from check_types(table, spans)
        yield from _check_cache(table, spans)
