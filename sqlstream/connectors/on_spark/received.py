"""Messages of spools as a stream: the driver receives them, and tasks read them where a micro-batch has its place.

A position is the number of a message. Spark writes it into its checkpoint before the micro-batch reads, and asks for
what follows when the micro-batch is complete; the spool forgets what it has read then.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from sqlstream.connectors.change_formats import has_kinds
from sqlstream.connectors.formats import quoted, records_columns
from sqlstream.connectors.on_spark.change_messages import decode_changes
from sqlstream.connectors.on_spark.decoders import decoder_of, session_zone
from sqlstream.connectors.on_spark.messages import as_variants, decoded
from sqlstream.connectors.on_spark.records import decode
from sqlstream.connectors.receiving.receiver import Receiver, Receiving
from sqlstream.connectors.receiving.spool import Spool
from sqlstream.connectors.schema_formats import DEBEZIUM_AVRO
from sqlstream.planner.bad_rows import tolerates_bad_rows
from sqlstream.planner.catalog import Table
from sqlstream.planner.lowering.hidden_columns import present
from sqlstream.secrets import Secrets
from sqlstream.sources.pace import Pace
from sqlstream.spark.internals import register_source
from sqlstream.spark.streams import SupportsTriggerAvailableNow
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.hiding import hiding
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.messages import MessageRows
from sqlstream.udfs.spool import DDL, NUMBER, SpoolRange, lost
from sqlstream.udfs.spool import messages_of as messages_of_ranges

_SETTINGS = "secret"
"""The option of the data source with all settings, whose name Spark knows to hide."""


@dataclass(frozen=True)
class ReceivingSettings:
    """What a stream of messages receives, and where it keeps them.

    * ``folder``: that of the spool, which outlives the query if it is ``lasting``; ``remembered``: see ``Spool``.
    * ``columns``: those of messages that the query needs.
    * ``most``: so many messages are read by a micro-batch at most. ``most_bytes``: so many wait for one at most.
      ``wanted_ms``: see ``Pace``.
    """

    receiver: Receiver = field(repr=False)
    secrets: Secrets = field(repr=False)
    folder: str
    columns: tuple[str, ...]
    most: int
    most_bytes: int
    remembered: int
    lasting: bool
    wanted_ms: int = 0


def messages_of(spark: SparkSession, settings: ReceivingSettings) -> DataFrame:
    """Returns messages as a streaming DataFrame with the columns of the settings, and NUMBER."""
    register_source(spark, ReceivedMessages)
    options = {_SETTINGS: base64.b64encode(pickle.dumps(settings)).decode()}
    return spark.readStream.format(ReceivedMessages.name()).options(**options).load()


def rows_of_messages(
    messages: DataFrame,
    table: Table,
    columns: tuple[str, ...],
    values: Mapping[str, Any],
    metadata: Mapping[str, str],
) -> DataFrame:
    """Decodes messages into the named columns of the table. ``values``: its options. ``metadata``: the columns that
    are METADATA of a message, each with the column of messages that holds it.
    """
    kinds = {c.name: c.type for c in table.columns}
    keep = {name: F.col(column).cast(kinds[name].ddl()) for name, column in metadata.items()}
    payload = tuple(name for name in columns if name not in keep)
    place = F.concat(F.lit("message "), F.col(NUMBER))
    if values["format"] == "json":  # as Flink, which takes an empty message for none
        messages = messages.where(F.trim(F.col("value").cast("string")) != "")
    zone = session_zone(messages.sparkSession)
    decoder = None if has_kinds(table) else decoder_of(table, payload, values, zone, all_columns=True)
    if decoder is not None:
        rows = decoded(messages, F.col("value"), MessageRows(decoder, tolerates_bad_rows(table)), keep, place)
        types = {c.name: c.type for c in records_columns(table)}
        chosen = [as_variants(name, types[name]) if name in payload else F.col(quoted(name)) for name in columns]
        return rows.select(*chosen, *(F.col(name) for name in (BAD,) if name in rows.columns))
    in_bytes = values["format"] == DEBEZIUM_AVRO
    texts = messages if in_bytes else messages.withColumn("value", F.col("value").cast("string"))
    read = decode_changes if has_kinds(table) else decode
    rows = read(texts, "value", table, payload, values, keep, place)
    extra = map(F.col, present(rows, (BAD, ROW_KIND)))
    return rows.select(*(F.col(quoted(name)) for name in columns), *extra)


# --- what Spark asks --------------------------------------------------------------------------------------------


class ReceivedMessages(DataSource):
    """A Spark data source of the messages of a spool. Option: ``secret``, the settings."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings: ReceivingSettings = pickle.loads(base64.b64decode(options[_SETTINGS]))

    @classmethod
    def name(cls) -> str:
        return "sqlstream_received_messages"

    def schema(self) -> str:
        return ", ".join(f"{name} {DDL[name]}" for name in (*self._settings.columns, NUMBER))

    def streamReader(self, schema: object) -> MessageStream:  # noqa: N802
        return MessageStream(self._settings)


class Share(InputPartition):
    """The messages that one task reads, in order."""

    def __init__(self, ranges: list[SpoolRange], columns: tuple[str, ...]) -> None:
        self.ranges, self.columns = ranges, columns


class MessageStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans what each micro-batch reads: what was received since the last one. Receives messages meanwhile.

    A run that reads only what is there (AvailableNow), as one that ends the input, receives nothing: it reads what its
    job has received before. PySpark 4.1 does not say where a micro-batch starts; the reader then goes on from the last
    one that it has planned.
    """

    def __init__(self, settings: ReceivingSettings) -> None:
        self._settings = settings
        self._pace = Pace(settings.most, settings.wanted_ms)
        self._spool: Spool | None = None
        self._receiving: Receiving | None = None
        self._last: dict[str, Any] | None = None
        self._what_is_there = False
        self._target: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._what_is_there = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        spool = self._opened()
        self._last = {"spool": spool.id, "next": spool.first}
        return self._last

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        position = self._last if start is None else start
        assert position is not None, "Spark asks where a source begins first"
        with hiding(self._settings.secrets):
            spool = self._spool_of(position)
            spool.remove(position["next"])  # Spark asks when the micro-batch that ends there is complete
            end = self._end(spool, position["next"])
        self._last = position if end == position["next"] else {"spool": spool.id, "next": end}
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, until = start["next"], end["next"]
        ranges = self._spool_of(end).ranges(begin, until) if begin < until else []
        return [Share(ranges, (*self._settings.columns, NUMBER))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from messages_of_ranges(partition.ranges, partition.columns)

    def commit(self, end: dict[str, Any]) -> None:
        self._spool_of(end).remove(end["next"])

    def stop(self) -> None:
        if self._receiving is not None:
            self._receiving.stop()
        if self._spool is not None:
            self._spool.close()

    # --- the spool ----------------------------------------------------------------------------------------------

    def _end(self, spool: Spool, begin: int) -> int:
        """Where the next micro-batch ends. Raises what has ended the receiver when all of its messages are read."""
        if self._what_is_there:
            self._target = spool.end if self._target is None else self._target
        elif self._receiving is None:
            settings = self._settings
            self._receiving = Receiving(settings.receiver, spool, settings.most_bytes, lasting=settings.lasting)
        end = spool.end if self._target is None else self._target
        if end <= begin and self._receiving is not None and self._receiving.error is not None:
            raise self._receiving.error
        end = max(begin, min(end, begin + self._pace.room()))
        if end > begin:
            self._pace.reads(end - begin)
        return end

    def _opened(self) -> Spool:
        if self._spool is None:
            self._spool = Spool(Path(self._settings.folder), self._settings.remembered)
        return self._spool

    def _spool_of(self, position: Mapping[str, Any]) -> Spool:
        """The spool that a position is of. ConnectorError SS662 where the folder has another one."""
        known = Path(self._settings.folder)
        if self._spool is None and not known.is_dir():
            raise lost(f'folder "{known}" of messages that were received is gone')
        spool = self._opened()
        if spool.id != position["spool"]:
            raise lost(f'folder "{known}" has other messages than those that the job has received')
        return spool
