"""``postgres-cdc``: a table of PostgreSQL as a stream of its rows and of their changes, without Debezium."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from sqlstream.connectors import on_spark
from sqlstream.connectors.changes.source import (
    CONNECT_TIMEOUT,
    COPY_OPTIONS,
    REFUSED,
    DatabaseChanges,
    number_of_scan,
    parts_at_once,
)
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.postgres.changes import PostgresChangeServer
from sqlstream.connectors.postgres.copies import CopyPlan
from sqlstream.connectors.postgres.publications import (
    Slot,
    changed_table,
    number_of,
    prepare_publication,
    require_logical,
)
from sqlstream.connectors.postgres.server import check_address, check_columns, connected, parameters, require_psycopg
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.formats.postgres_texts import PRINTING
from sqlstream.options import (
    DURATION,
    NAME,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    integer,
    one_of,
)
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.database_changes import METADATA

_SLOT = re.compile(r"[a-z0-9_]{1,60}")
_NO_DEBEZIUM = "No Debezium is used; the options of this connector say the same."


def _slot_name(text: str) -> str:
    if not _SLOT.fullmatch(text):
        raise ValueError(text)
    return text


SLOT_NAME = OptionKind("slot name", "lower-case letters, digits and underscores, at most 60", _slot_name)


class PostgresChanges(DatabaseChanges):
    """Tables of PostgreSQL, whose rows are read first and then their changes from the log. Raises ConnectorError SS577
    without the package psycopg.
    """

    name = "postgres-cdc"
    doc = "A table of PostgreSQL and its changes, which are read from the log of the server (logical replication)."
    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "url", NAME, "The server and the database, in place of the next three: postgresql://host:5432/database."
        ),
        Option("hostname", NAME, "The server."),
        Option("port", integer(1, 65535), "Its port.", "5432"),
        Option("database-name", NAME, "Its database."),
        Option("schema-name", NAME, "The schema of the table, spelled as the database keeps it.", "public"),
        Option("table-name", NAME, "The table, spelled as the database keeps it.", required=True),
        Option("username", NAME, "The user, who may replicate and read the table; that of the process."),
        Option("password", STRING, "The password, best as '${NAME}' of an environment variable."),
        Option(
            "slot.name",
            SLOT_NAME,
            "The replication slot, made if there is none; a job that reads more of it also makes name_2 and so on.",
            required=True,
        ),
        Option(
            "decoding.plugin.name", one_of("pgoutput", planned=("decoderbufs",)), "What writes the log.", "pgoutput"
        ),
        Option(
            "publication.name",
            NAME,
            "The publication that has the table, made if it does not exist; not given, it has the slot's name.",
        ),
        Option(
            "scan.startup.mode",
            one_of("initial", "latest-offset", "committed-offset", "never", planned=("snapshot",)),
            "Where a job without checkpoint begins: with the rows that are there, with what changes from now on, or "
            "where the slot is (never means the same).",
            "initial",
        ),
        *COPY_OPTIONS,
        Option(
            "scan.truncate",
            one_of("fail", "skip"),
            "What TRUNCATE of the table does, of which the log has no rows: the job fails, or leaves its rows.",
            "fail",
        ),
        Option(
            "scan.unchanged-toast",
            one_of("current", "fail"),
            "What becomes of a large value (TOAST) that an UPDATE left as it was, so that the log lacks it: it is that "
            "of the row now, or the job fails.",
            "current",
        ),
        Option(
            "source.max-rows-per-trigger",
            integer(1),
            "A micro-batch reads about so many changes at most; a transaction is never divided.",
            "500000",
        ),
        Option(
            "heartbeat.interval",
            DURATION,
            "After which time without changes the slot moves on, so that the server may remove its log; 0: never.",
            "30 s",
        ),
        CONNECT_TIMEOUT,
    )
    refused: ClassVar[Mapping[str, str]] = {
        **REFUSED,
        "debezium.publication.name": "It is 'publication.name'.",
        "debezium.slot.name": "It is 'slot.name'.",
        "debezium.plugin.name": "It is 'decoding.plugin.name'.",
    }
    variables: ClassVar[tuple[str, ...]] = ("database-name", "hostname", "password", "url", "username")

    old_rows_where = " where the table has REPLICA IDENTITY FULL"

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        hint = "Add 'hostname' = '…', 'database-name' = '…' to WITH."
        yield from check_address(table, spans, "hostname", "database-name", hint)
        yield from super().check(table, spans)
        yield from check_columns(table, spans)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: parse_type(kind) for key, kind in METADATA.items()}

    def settings(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> Any:
        """Also creates the publication where there is none."""
        require_psycopg()
        values = self.resolved_values(table)
        name = _slot_of_scan(environment, values["slot.name"])
        slot = Slot(name, values["publication.name"] or name, (values["schema-name"], values["table-name"]))
        connection = _connection(table.name, values)
        folder = self.folder(environment, slot.name)
        with connected(table.name, connection, _TIMEOUT_MS) as server:
            require_logical(server)
            changed, keys = changed_table(
                server, table, slot.table, columns, connection,
                follows=values["scan.schema-change"] == "follow", skips_truncate=values["scan.truncate"] == "skip",
                asks=values["scan.unchanged-toast"] == "current",
            )  # fmt: skip
            condition = prepare_publication(server, changed, slot)
            number = number_of(server, slot.table)
        plan = CopyPlan(
            changed, keys, condition, values["scan.incremental.snapshot.chunk.size"], parts_at_once(environment)
        )
        mode = values["scan.startup.mode"]
        return on_spark.database_changes.ChangeSettings(
            PostgresChangeServer(
                slot, number, tuple(connection.items()), plan, mode == "initial",
                mode in ("committed-offset", "never"), _TIMEOUT_MS,
            ),
            secrets_of(table),
            values["source.max-rows-per-trigger"],
            values["heartbeat.interval"],
            str(folder),
            not folder.is_relative_to(environment.directory),
            environment.wanted_ms,
        )  # fmt: skip


_TIMEOUT_MS = 60_000


def _slot_of_scan(environment: Environment, name: str) -> str:
    """A slot has one reader, so a query that reads several tables of one slot has more of them: ``name``, ``name_2``
    and so on.
    """
    number = number_of_scan(environment, name)
    return name if number == 0 else f"{name}_{number + 1}"


def _connection(name: str, values: Mapping[str, Any]) -> dict[str, str]:
    """libpq's parameters, with the settings by which the server prints values."""
    given = {
        "url": values["url"], "host": values["hostname"], "port": values["port"], "database": values["database-name"],
        "username": values["username"], "password": values["password"], "connect-timeout": values["connect.timeout"],
    }  # fmt: skip
    try:
        connection = parameters(given)
    except ValueError as error:
        message = f'option "url" of table "{name}" cannot be used: {error}'
        raise ConnectorError(WRONG_VALUE, message, hint="Write 'postgresql://host:5432/database'.") from None
    printing = " ".join(f"-c {key}={value}" for key, value in PRINTING.items() if key != "client_encoding")
    own = {"client_encoding": PRINTING["client_encoding"], "application_name": "sqlstream"}
    return {**own, **connection, "options": f"{connection.get('options', '')} {printing}".strip()}
