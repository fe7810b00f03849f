"""``mysql-cdc``: a table of MySQL or MariaDB as a stream of its rows and of their changes, without Debezium."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import SystemRandom
from typing import Any, ClassVar
from uuid import uuid4

from sqlstream.connectors import on_spark
from sqlstream.connectors.changes.source import (
    CONNECT_TIMEOUT,
    COPY_OPTIONS,
    REFUSED,
    DatabaseChanges,
    number_of_scan,
    parts_at_once,
)
from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.mysql.changes import EARLIEST, INITIAL, LATEST, SPECIFIC, MySqlChangeServer
from sqlstream.connectors.mysql.copies import CopyPlan
from sqlstream.connectors.mysql.server import asked, names_fold, place, require_pymysql, require_row_log
from sqlstream.connectors.mysql.tables import METADATA, READABLE, changed_table, charsets
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.formats.gtids import gtids_of
from sqlstream.options import (
    DURATION,
    MISSING_OPTION,
    NAME,
    PATH,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    integer,
    one_of,
)
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs import database_changes
from sqlstream.udfs.mysql_connection import DISABLED, PREFERRED, TLS_MODES, VERIFYING

_MOST_ID = (1 << 32) - 1
_FILE, _OFFSET = "scan.startup.specific-offset.file", "scan.startup.specific-offset.pos"
_GTIDS = "scan.startup.specific-offset.gtid-set"
_OF_TLS = ("ssl.ca-file", "ssl.cert-file", "ssl.key-file")


def _server_ids(text: str) -> range:
    first, _, last = text.partition("-")
    ids = range(int(first), int(last or first) + 1)
    if not ids or ids[0] < 1 or ids[-1] > _MOST_ID:
        raise ValueError(text)
    return ids


SERVER_IDS = OptionKind("server id", "a number such as 5400, or a range of them: 5400-5404", _server_ids)


def _log_file(text: str) -> str:
    if not text.rpartition(".")[2].isdigit():
        raise ValueError(text)
    return text


LOG_FILE = OptionKind("file of the binary log", "its name, which ends in a number: mysql-bin.000003", _log_file)


def _gtids(text: str) -> str:
    shown = str(gtids_of(text))
    if not shown:
        raise ValueError(text)
    return shown


GTIDS = OptionKind(
    "GTID position",
    "of MariaDB the last transaction of each domain, '0-1-270,7-1-3', and of MySQL a set of GTIDs, "
    "'3e11fa47-71ca-11e1-9e33-c80aa9429562:1-270'",
    _gtids,
)


class MySqlChanges(DatabaseChanges):
    """Tables of MySQL and MariaDB, whose rows are read first and then their changes from the binary log. Raises
    ConnectorError SS577 without the package PyMySQL.
    """

    name = "mysql-cdc"
    doc = "A table of MySQL or MariaDB and its changes, which are read from the binary log of the server."
    options: ClassVar[tuple[Option, ...]] = (
        Option("hostname", NAME, "The server.", required=True),
        Option("port", integer(1, 65535), "Its port.", "3306"),
        Option("database-name", NAME, "Its database.", required=True),
        Option("table-name", NAME, "The table, spelled as the database keeps it.", required=True),
        Option("username", NAME, "The user, who may read the table and replicate.", required=True),
        Option("password", STRING, "The password, best as '${NAME}' of an environment variable.", required=True),
        Option(
            "server-id",
            SERVER_IDS,
            "The number by which the server knows the reader, or a range of them, one for each table that the job "
            "reads. No replica and no other job may have it. Not given, it is a random one.",
        ),
        Option(
            "scan.startup.mode",
            one_of(INITIAL, LATEST, EARLIEST, SPECIFIC, planned=("timestamp", "snapshot")),
            "Where a job without checkpoint begins: with the rows that are there, with what changes from now on, with "
            "the oldest file of the log, or at a place of it.",
            INITIAL,
        ),
        Option(_FILE, LOG_FILE, "The file of the log where the job begins."),
        Option(_OFFSET, integer(4), "The byte in it."),
        Option(
            _GTIDS,
            GTIDS,
            "In place of file and byte: the job begins behind these transactions.",
        ),
        *COPY_OPTIONS,
        Option(
            "scan.truncate",
            one_of("fail", "skip"),
            "What TRUNCATE of the table or of a partition does, of which the log has no rows: the job fails, or leaves "
            "the rows.",
            "fail",
        ),
        Option(
            "scan.cascade",
            one_of("fail", "skip"),
            "What a foreign key does that deletes or updates rows of the table, which the log lacks: the job does not "
            "start, or leaves the rows.",
            "fail",
        ),
        Option(
            "source.max-rows-per-trigger",
            integer(1),
            "A micro-batch reads about so many events at most, each of which has some rows; a transaction is never "
            "divided.",
            "500000",
        ),
        Option(
            "heartbeat.interval",
            DURATION,
            "After which time without changes the position moves on, so that a job that starts again needs no log that "
            "the server has removed by then; 0: never.",
            "30 s",
        ),
        CONNECT_TIMEOUT,
        Option(
            "ssl.mode",
            one_of(*TLS_MODES),
            "Whether connections use TLS: never, where the server has it, always, or with a certificate of the server "
            "that is checked, and that must be of the host.",
            PREFERRED,
        ),
        Option(
            "ssl.ca-file", PATH, "The file with the certificates that vouch for the server's; those of the machine."
        ),
        Option("ssl.cert-file", PATH, "The file with the certificate of the user, where the server asks for one."),
        Option("ssl.key-file", PATH, "The file with its key, where that is another."),
    )
    refused: ClassVar[Mapping[str, str]] = {
        **REFUSED,
        "scan.startup.timestamp-millis": "Name the file and the byte of the log where the job begins.",
        "debezium.database.ssl.mode": "It is 'ssl.mode'.",
        "jdbc.properties.useSSL": "It is 'ssl.mode'.",
        "server-time-zone": "TIMESTAMP is read in UTC, and DATETIME as it is.",
        "scan.newly-added-table.enabled": "Each table is declared.",
    }
    variables: ClassVar[tuple[str, ...]] = ("database-name", "hostname", "password", "username")
    old_rows_where = ""

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        given = dict(table.options)
        specific = given.get("scan.startup.mode", "").strip().lower() == SPECIFIC
        by_gtids = _GTIDS in given
        for key in (_FILE, _OFFSET, _GTIDS):
            if specific and by_gtids and key != _GTIDS and key in given:
                message = f'option "{key}" does not go with "{_GTIDS}"'
                yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Leave one of them out.")
            if specific and not by_gtids and key not in given and key != _GTIDS:
                message = f"'scan.startup.mode' = '{SPECIFIC}' requires the option \"{key}\""
                hint = "SHOW BINARY LOGS; lists the files."
                yield Diagnostic(MISSING_OPTION, message, spans.get("scan.startup.mode"), hint=hint)
            if not specific and key in given:
                message = f"option \"{key}\" is of 'scan.startup.mode' = '{SPECIFIC}' alone"
                yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Leave it out, or give that mode.")
        yield from _check_tls(given, spans)
        yield from super().check(table, spans)
        for column in table.physical_columns:
            if column.type.name not in READABLE:
                message = f'connector "{self.name}" has no values of type {column.type} for column "{column.name}"'
                hint = f"Declare it as STRING; its types are {', '.join(sorted(READABLE))}."
                yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint=hint)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: parse_type(database_changes.METADATA[key]) for key in METADATA}

    def settings(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> Any:
        require_pymysql()
        values = self.resolved_values(table)
        scan = number_of_scan(environment, self.name)
        where = values["database-name"], values["table-name"]
        connection = _connection(values)
        is_looked_at = environment.watches is None and environment.logs is None
        folder = self.folder(environment, f"mysql-{uuid4().hex if is_looked_at else scan + 1}")
        with asked(table.name, connection) as server:
            require_row_log(server, where[0])
            folds = names_fold(server)
            where = (where[0].lower(), where[1].lower()) if folds else where
            changed, cut_by, details = changed_table(
                server, table, where, columns, connection, follows=values["scan.schema-change"] == "follow",
                skips_truncate=values["scan.truncate"] == "skip", skips_cascades=values["scan.cascade"] == "skip",
            )  # fmt: skip
            of_collations = charsets(server)
        selected = tuple(details[column.stored].selected for column in changed.columns)
        rows = values["scan.incremental.snapshot.chunk.size"]
        return on_spark.database_changes.ChangeSettings(
            MySqlChangeServer(
                tuple(connection.items()),
                CopyPlan(changed, selected, cut_by, rows, parts_at_once(environment)),
                of_collations,
                _server_id(values["server-id"], scan),
                values["scan.startup.mode"],
                place(values[_FILE], values[_OFFSET]) if values[_FILE] is not None else 0,
                values[_GTIDS],
                folds,
            ),
            secrets_of(table),
            values["source.max-rows-per-trigger"],
            values["heartbeat.interval"],
            str(folder),
            confirms=False,
            wanted_ms=environment.wanted_ms,
        )


def _server_id(ids: range | None, scan: int) -> int:
    if ids is None:
        return SystemRandom().randrange(1 << 30, 1 << 31)
    if scan >= len(ids):
        message = f'option "server-id" has {len(ids)} numbers, and the job reads {scan + 1} tables of MySQL or more'
        hint = f"Write '{ids[0]}-{ids[0] + scan}', or leave it out."
        raise ConnectorError(WRONG_VALUE, message, hint=hint)
    return ids[scan]


def _connection(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        "host": values["hostname"], "port": str(values["port"]), "user": values["username"],
        "password": values["password"], "connect_timeout": str(max(1, -(-values["connect.timeout"] // 1000))),
        "ssl.mode": values["ssl.mode"], **{key: values[key] for key in _OF_TLS if values[key] is not None},
    }  # fmt: skip


def _check_tls(given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS504 for files that the mode of TLS does not use."""
    mode = given.get("ssl.mode", PREFERRED).strip().lower()
    unused = {
        "ssl.ca-file": mode not in VERIFYING, "ssl.cert-file": mode in (DISABLED, PREFERRED),
        "ssl.key-file": "ssl.cert-file" not in given,
    }  # fmt: skip
    for key, is_unused in unused.items():
        if key in given and is_unused and "${" not in mode:
            message = f"option \"{key}\" has no effect with 'ssl.mode' = '{mode}'"
            hint = "Give 'ssl.mode' = 'verify-identity'."
            if key == "ssl.key-file":
                message, hint = (
                    'option "ssl.key-file" needs the option "ssl.cert-file"',
                    "Add it, or leave the key out.",
                )
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
