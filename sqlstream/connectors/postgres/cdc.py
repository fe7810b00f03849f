"""``postgres-cdc``: a table of PostgreSQL as a stream of its rows and of their changes, without Debezium."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import Environment, Source, Watch, columns_of
from sqlstream.connectors.postgres.copies import CopyPlan
from sqlstream.connectors.postgres.publications import Slot, changed_table, prepare_publication, require_logical
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
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.postgres_changes import KINDS, METADATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_CHECKPOINT = "SS629"

_SLOT = re.compile(r"[a-z0-9_]{1,60}")
_NO_DEBEZIUM = "No Debezium is used; the options of this connector say the same."


def _slot_name(text: str) -> str:
    if not _SLOT.fullmatch(text):
        raise ValueError(text)
    return text


SLOT_NAME = OptionKind("slot name", "lower-case letters, digits and underscores, at most 60", _slot_name)


class PostgresChanges(Source):
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
        Option(
            "scan.incremental.snapshot.chunk.size",
            integer(1),
            "So many of the rows that are there are copied at a time, and are one micro-batch.",
            "500000",
        ),
        Option("scan.incremental.snapshot.enabled", one_of("true"), "Rows are always copied in parts.", "true"),
        Option(
            "scan.schema-change",
            one_of("fail", "follow"),
            "What happens where the log lacks a column, or has it with another type: the job fails, or reads NULL and "
            "what the text of the value is for the declared type.",
            "fail",
        ),
        Option(
            "scan.truncate",
            one_of("fail", "skip"),
            "What TRUNCATE of the table does, of which the log has no rows: the job fails, or leaves its rows.",
            "fail",
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
        Option("connect.timeout", DURATION, "How long to wait for a connection.", "30 s"),
    )
    refused: ClassVar[Mapping[str, str]] = {
        "debezium.snapshot.mode": "'scan.startup.mode' says where a job begins.",
        "debezium.publication.name": "It is 'publication.name'.",
        "debezium.slot.name": "It is 'slot.name'.",
        "debezium.plugin.name": "It is 'decoding.plugin.name'.",
        "scan.incremental.snapshot.chunk.key-column": "Rows are cut by the key of the table.",
        "scan.snapshot.fetch.size": "Rows are copied, not fetched.",
        "connect.max-retries": "Connections that broke are made again for a minute.",
        "connection.pool.size": "A job has two connections, and one more while it copies rows.",
    }
    variables: ClassVar[tuple[str, ...]] = ("database-name", "hostname", "password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        given = dict(table.options)
        hint = "Add 'hostname' = '…', 'database-name' = '…' to WITH."
        yield from check_address(table, spans, "hostname", "database-name", hint)
        if table.changelog == APPEND_ONLY or RowKind.UPDATE_AFTER not in table.changelog:
            message = "'changelog-mode' of the connector \"postgres-cdc\" has updates, because rows of tables change"
            hint = "Leave it out, or write 'I,UB,UA,D' where the table has REPLICA IDENTITY FULL."
            yield Diagnostic(WRONG_VALUE, message, spans.get("changelog-mode"), hint=hint)
        if given.get(ON_ERROR, "fail") != "fail":
            message = f'option "{ON_ERROR}" of the connector "postgres-cdc" is \'fail\': no change may be left out'
            yield Diagnostic(WRONG_VALUE, message, spans.get(ON_ERROR), hint="Declare odd columns as STRING.")
        yield from check_columns(table, spans)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        return {key: parse_type(kind) for key, kind in METADATA.items()}

    def has_kinds(self, table: Table) -> bool:
        return True

    def poll_ms(self, table: Table) -> int | None:
        return 100

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        """Checks the server and the table, creates the publication where there is none, and returns the stream."""
        from pyspark.sql import functions as F

        settings = self._settings(environment, table, columns)
        rows = on_spark.postgres_changes.changes_of_table(environment.spark, settings)
        changed = settings.plan.table
        metadata = iter(name for name, _ in changed.metadata)
        physical = iter(c.name for c in changed.columns)
        chosen = columns_of(table, columns)
        named = [
            F.col(next(physical if c.metadata_key is None else metadata)).cast(c.type.ddl()).alias(c.name)
            for c in chosen
        ]
        return rows.select(*named, F.col(KINDS).alias(ROW_KIND))

    def _settings(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> Any:
        require_psycopg()
        values = self.resolved_values(table)
        name = _slot_of_scan(environment, values["slot.name"])
        slot = Slot(name, values["publication.name"] or name, (values["schema-name"], values["table-name"]))
        connection = _connection(table.name, values)
        folder = _folder(environment, slot)
        with connected(table.name, connection, _TIMEOUT_MS) as server:
            require_logical(server)
            changed, keys = changed_table(
                server, table, slot.table, columns, connection,
                follows=values["scan.schema-change"] == "follow", skips_truncate=values["scan.truncate"] == "skip",
            )  # fmt: skip
            condition = prepare_publication(server, changed, slot)
        tasks = int(str(environment.spark.conf.get("spark.sql.shuffle.partitions")))
        plan = CopyPlan(changed, keys, condition, values["scan.incremental.snapshot.chunk.size"], max(1, min(tasks, 8)))
        return on_spark.postgres_changes.ChangeSettings(
            slot,
            tuple(connection.items()),
            secrets_of(table),
            plan,
            values["scan.startup.mode"] == "initial",
            values["scan.startup.mode"] in ("committed-offset", "never"),
            values["source.max-rows-per-trigger"],
            values["heartbeat.interval"],
            str(folder),
            not folder.is_relative_to(environment.directory),
            _TIMEOUT_MS,
        )


_TIMEOUT_MS = 60_000


@dataclass
class UsedSlots(Watch):
    """The slots of a job. A slot has one reader, so a query that reads several tables of one slot has more of them:
    ``name``, ``name_2`` and so on, in the order of the plan, in which Spark keeps positions, too.
    """

    counts: Counter[str] = field(default_factory=Counter)
    interval_ms: int | None = None

    def look(self) -> None:
        """Does nothing: the sources look themselves."""


def _slot_of_scan(environment: Environment, name: str) -> str:
    if environment.watches is None:
        return name
    used = next((watch for watch in environment.watches if isinstance(watch, UsedSlots)), None)
    if used is None:
        used = UsedSlots()
        environment.watches.append(used)
    used.counts[name] += 1
    return name if used.counts[name] == 1 else f"{name}_{used.counts[name]}"


def _folder(environment: Environment, slot: Slot) -> Path:
    """Where the files of a job are. A query that is only looked at has them in the scratch folder of its session."""
    if environment.logs is not None:
        return Path(environment.logs).parent.parent / "changes" / slot.name
    if environment.watches is None:
        return environment.directory / "changes" / slot.name
    message = 'connector "postgres-cdc" needs a checkpoint that is a folder of this machine'
    hint = "Let 'execution.checkpointing.dir' be a folder, of a cluster one that all its machines mount."
    raise ConnectorError(NO_CHECKPOINT, message, hint=hint)


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
