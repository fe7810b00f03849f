"""What sources of messages have in common: formats, limits, METADATA columns, and where their spools are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sqlstream.connectors import on_spark
from sqlstream.connectors.change_formats import (
    CHANGE_FORMATS,
    CHANGE_OPTIONS,
    check_changes,
    has_kinds,
    metadata_of,
    of_message,
)
from sqlstream.connectors.changes.source import NO_CHECKPOINT, number_of_scan
from sqlstream.connectors.connector import Source, columns_of
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import (
    CSV_OPTIONS,
    JSON_CONFLUENT_OPTIONS,
    JSON_OPTIONS,
    RAW_OPTIONS,
    REFUSED_OF_FORMATS,
    check_format,
)
from sqlstream.connectors.http import AUTH_OPTIONS
from sqlstream.connectors.receiving.receiver import Receiver
from sqlstream.connectors.schema_formats import SCHEMA_FORMATS, SCHEMA_OPTIONS, SCHEMA_VARIABLES
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, SIZE, STRING, Option, integer, one_of
from sqlstream.paths import as_segment
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.spool import RECEIVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REQUEST_OPTIONS = (
    Option("headers.#", STRING, "Header # of the request that connects."),
    *(replace(option, sink=False) for option in AUTH_OPTIONS),
)
"""Options of connectors whose receiver is a client of HTTP (``http.headers_of``)."""
LARGEST = Option("max-message-bytes", SIZE, "No message is larger.", "16 mb")

_SPOOL_OPTIONS = (
    Option(
        "spool.max-bytes",
        SIZE,
        "While so much was received that no micro-batch has read, nothing more is.",
        "1 gb",
    ),
    Option("source.max-rows-per-trigger", integer(1), "A micro-batch reads at most so many messages.", "500000"),
)
RECONNECT_OPTIONS = (
    Option("connect.timeout", DURATION, "How long to wait for a connection.", "30 s"),
    Option(
        "reconnect.delay",
        DURATION,
        "How long to wait before a connection that ended is made again; twice as long after each attempt that fails.",
        "1 s",
    ),
    Option("reconnect.max-delay", DURATION, "The longest wait.", "1 min"),
    Option("reconnect.timeout", DURATION, "After so long without a connection the job fails.", "10 min"),
)
"""Options of connectors whose receiver is a client (``Patience.of``)."""

_FORMAT_OPTIONS = tuple(
    option
    for option in (*CSV_OPTIONS, *JSON_OPTIONS, *RAW_OPTIONS, *SCHEMA_OPTIONS, *JSON_CONFLUENT_OPTIONS, *CHANGE_OPTIONS)
    if option.source
)


class Metadata(NamedTuple):
    """A METADATA column: the column of ``udfs.spool.MESSAGES`` that holds it, and its type."""

    column: str
    type: str


class MessageSource(Source):
    """A source of messages that are received, and that are on disk before their sender learns it.

    ``own_options``: options of the connector; those of formats and limits come with them. ``own_metadata``: its
    METADATA columns by key; each also has ``received-at``. ``remembered``: see ``Spool``.
    """

    refused: ClassVar[Mapping[str, str]] = REFUSED_OF_FORMATS
    own_options: ClassVar[tuple[Option, ...]] = ()
    own_metadata: ClassVar[Mapping[str, Metadata]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.options = (
            *cls.own_options,
            Option(
                "format",
                one_of("csv", "json", "raw", *SCHEMA_FORMATS, *CHANGE_FORMATS),
                "How a message is written: csv, json, raw (the bytes of one column) or by a schema; changes of a table "
                "by the others.",
                required=True,
            ),
            *_SPOOL_OPTIONS,
            *_FORMAT_OPTIONS,
        )
        cls.variables = (*cls.variables, *SCHEMA_VARIABLES)

    @abstractmethod
    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> Receiver:
        """Returns what gets the messages of a table. ``values``: its resolved options. ``scan``: 0; more where the
        query reads the table several times, each with a spool of its own.
        """

    def remembered(self, values: Mapping[str, Any]) -> int:
        """Of how many messages the spool knows the ``id`` after they were removed."""
        return 0

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_format(table, spans)
        yield from check_changes(table, spans)

    def metadata(self, table: Table) -> Mapping[str, DataType]:
        own = {key: parse_type(metadata.type) for key, metadata in _metadata(self).items()}
        return {**own, **metadata_of(table)}

    def has_kinds(self, table: Table) -> bool:
        return has_kinds(table)

    def poll_ms(self, table: Table) -> int | None:
        return 100

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.resolved_values(table)
        scan = number_of_scan(environment, f"messages of {table.name}")
        folder, lasting = self._folder(environment, table, scan)
        of_columns = {
            c.name: _metadata(self)[c.metadata_key].column
            for c in columns_of(table, columns)
            if c.metadata_key is not None and of_message(table, c) is None
        }
        settings = on_spark.received.ReceivingSettings(
            receiver=self.receiver(table, values, scan),
            secrets=secrets_of(table),
            folder=str(folder),
            columns=("value", *dict.fromkeys(of_columns.values())),
            most=values["source.max-rows-per-trigger"],
            most_bytes=values["spool.max-bytes"],
            remembered=self.remembered(values),
            lasting=lasting,
            wanted_ms=environment.wanted_ms,
        )
        messages = on_spark.received.messages_of(environment.spark, settings)
        return on_spark.received.rows_of_messages(messages, table, columns, values, of_columns)

    def _folder(self, environment: Environment, table: Table, scan: int) -> tuple[Path, bool]:
        """Where the spool of a scan is, and whether it outlives the query."""
        name = as_segment(table.name if scan == 0 else f"{table.name} {scan + 1}")
        if environment.logs is not None:
            folder = Path(environment.logs).parent.parent / RECEIVED / name
            return folder, not folder.is_relative_to(environment.directory)
        if environment.watches is None:
            return environment.directory / RECEIVED / name, False
        message = f'connector "{self.name}" needs a checkpoint that is a folder of this machine'
        hint = "Let 'execution.checkpointing.dir' be a folder, of a cluster one that all its machines mount."
        raise ConnectorError(NO_CHECKPOINT, message, hint=hint)


def _metadata(kind: MessageSource) -> dict[str, Metadata]:
    return {**kind.own_metadata, "received-at": Metadata("received", "TIMESTAMP")}
