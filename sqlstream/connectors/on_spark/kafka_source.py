"""Topics of Kafka as a stream of ranges of offsets: the driver plans what a micro-batch reads, and tasks fetch it.

Spark writes the position of each micro-batch into its checkpoint before the micro-batch reads, so one that is repeated
reads the same messages.
"""

from __future__ import annotations

import logging
import math
import pickle
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from sqlstream.connectors.kafka.offsets import (
    Bound,
    Lost,
    OffsetRange,
    Offsets,
    Partition,
    Position,
    TopicSettings,
    after_losses,
    lost,
    ranges,
    shared_out,
)
from sqlstream.connectors.kafka.watermarks import IdlePartitions, PartitionWatermarks
from sqlstream.errors import ConnectorError, repeating
from sqlstream.options import WRONG_VALUE
from sqlstream.spark.internals import make_active
from sqlstream.spark.streams import SupportsTriggerAvailableNow
from sqlstream.types import from_arrow
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.exchange import LIFT
from sqlstream.udfs.kafka import admin
from sqlstream.udfs.kafka.fetch import (
    DDL,
    RANGES,
    RANGES_DDL,
    UNREACHABLE,
    FetchedMessages,
    LiftedMessages,
    RowsOfTopics,
    TopicRecords,
    consumer_of,
    lose,
    losing,
    reason_of,
    unreachable,
    wrong_properties,
)
from sqlstream.udfs.kafka.times import NewestTimes, TopicTimes
from sqlstream.udfs.spark.batches import rows_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_Answer = TypeVar("_Answer")

NO_OFFSETS = repeating("SS593")
_SECONDS = 30
_COMMIT_SECONDS, _COMMIT_AGAIN_SECONDS = 5, 5.0
"""A micro-batch waits for a commit, which is for those who watch the group."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_SETTINGS = "secret"
"""The option of the data source with all settings, whose name Spark knows to hide."""
_WATERMARK = "watermark_secret"
"""The option with a TopicWatermark, which may hold the secrets of a registry of schemas."""


def messages_of(
    spark: SparkSession,
    settings: TopicSettings,
    columns: tuple[str, ...],
    *,
    finished: bool,
    watermark: TopicWatermark | None = None,
) -> DataFrame:
    """Returns the messages of a table with the given columns (``udfs.kafka.fetch.FIELDS``), and with LIFT if there is a
    ``watermark``, as a streaming DataFrame, or, if ``finished``, as a batch DataFrame.
    """
    fetched = FetchedMessages(settings.properties, columns, settings.skips_lost)
    places = ranges_of_topics(spark, settings, finished=finished, watermark=watermark)
    if watermark is None:
        return places.mapInArrow(rows_of(fetched), _ddl(columns))
    return places.mapInArrow(rows_of(LiftedMessages(fetched)), f"{_ddl(columns)}, {_LIFT_DDL}")


def rows_of_topics(
    places: DataFrame, settings: TopicSettings, records: TopicRecords, kept: tuple[str, ...], *, lifts: bool = False
) -> DataFrame:
    """Returns the rows of messages in the ranges ``places``, which the tasks that fetch them decode: the columns of
    ``records``, named ``value0`` and so on but for BAD, the columns ``kept`` of each row's message, and LIFT if
    ``lifts``.
    """
    columns = tuple(name for name in DDL if name in {"value", "topic", "partition", "offset", *kept})
    names = tuple(f.name if f.name == BAD else f"value{i}" for i, f in enumerate(records.schema))
    types = (f"{name} {from_arrow(f.type).ddl()}" for name, f in zip(names, records.schema, strict=True))
    fetched = FetchedMessages(settings.properties, columns, settings.skips_lost)
    work = RowsOfTopics(fetched, records, names, kept, lifts)
    lift = _LIFT_DDL if lifts else ""
    return places.mapInArrow(rows_of(work), ", ".join(filter(None, (*types, _ddl(kept), lift))))


_LIFT_DDL = f"{LIFT} BIGINT"


def _ddl(columns: Iterable[str]) -> str:
    return ", ".join(f"`{name}` {DDL[name]}" for name in columns)


@dataclass(frozen=True)
class TopicWatermark:
    """How the watermark of a table is found: from the event ``times`` of messages, without partitions that have none
    for ``idle_ms``. ``by_rows``: as of ``PartitionWatermarks``.
    """

    times: TopicTimes
    idle_ms: int = 0
    by_rows: str | None = None

    def of(self, properties: Mapping[str, str]) -> PartitionWatermarks:
        """The watermarks of a table's partitions, which begin now. ``properties``: those of librdkafka."""
        newest = NewestTimes(self.times, properties)

        def look(ranges: Collection[OffsetRange]) -> dict[Partition, int]:
            found = newest.of({r.partition: (r.begin, r.end) for r in ranges})
            return {Partition(*slot): time for slot, time in found.items()}

        return PartitionWatermarks(look, IdlePartitions(self.idle_ms), self.by_rows)


def ranges_of_topics(
    spark: SparkSession, settings: TopicSettings, *, finished: bool, watermark: TopicWatermark | None = None
) -> DataFrame:
    """Returns the ranges of offsets (``udfs.kafka.fetch.RANGES``) that tasks fetch, as a streaming DataFrame, or, if
    ``finished``, as a batch DataFrame.
    """
    make_active(spark)
    spark.dataSource.register(TopicRanges)
    reader = spark.read if finished else spark.readStream
    options = {_SETTINGS: settings.to_json(), "tasks": str(spark.conf.get("spark.sql.shuffle.partitions"))}
    if watermark is not None:
        options[_WATERMARK] = b64encode(pickle.dumps(watermark)).decode()
    return reader.format(TopicRanges.name()).options(**options).load()


# --- what Spark asks ------------------------------------------------------------------------------------------


class TopicRanges(DataSource):
    """A Spark data source of ranges of offsets (``RANGES_DDL``), a few for each task. Options: ``secret``, the settings
    as JSON, and ``tasks``, how many there are at most; ``watermark_secret`` where partitions have watermarks.
    """

    @classmethod
    def name(cls) -> str:
        return "sqlstream_topic_ranges"

    def schema(self) -> str:
        return RANGES_DDL

    def streamReader(self, schema: object) -> RangeStream:  # noqa: N802
        settings = TopicSettings.of_json(self.options[_SETTINGS])
        given = self.options.get(_WATERMARK)
        watermark: TopicWatermark | None = None if given is None else pickle.loads(b64decode(given))
        watermarks = None if watermark is None else watermark.of(settings.properties)
        return RangeStream(settings, int(self.options["tasks"]), watermarks)

    def reader(self, schema: object) -> WholeTopics:
        return WholeTopics(TopicSettings.of_json(self.options[_SETTINGS]), int(self.options["tasks"]))


class Share(InputPartition):
    """The ranges that one task reads, and the time that the watermark may reach behind the micro-batch."""

    def __init__(self, own: tuple[OffsetRange, ...], lift: int | None = None) -> None:
        self.own = own
        self.lift = lift


def _rows(share: Any) -> Iterator[pa.RecordBatch]:
    ranges_ = ((r.partition.topic, r.partition.number, r.begin, r.end, share.lift) for r in share.own)
    columns = zip(*(ranges_ if share.own else [(None, None, None, None, share.lift)]), strict=True)
    arrays = [pa.array(list(values), f.type) for values, f in zip(columns, RANGES, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=RANGES)


def _shares(start: Position, end: Position, tasks: int) -> list[InputPartition]:
    shares: list[InputPartition] = [Share(own, end.lift) for own in shared_out(ranges(start, end), tasks)]
    return shares if shares or start.lift == end.lift else [Share((), end.lift)]


class WholeTopics(DataSourceReader):
    """All messages of a bounded table, for a query over finished data."""

    def __init__(self, settings: TopicSettings, tasks: int) -> None:
        self._settings, self._tasks = settings, tasks

    def partitions(self) -> list[InputPartition]:
        with closing(Brokers(self._settings)) as brokers:
            start = brokers.first_position()
        assert start.stop is not None, "a table without end is no finished data"
        end = start.advanced(start.stop, None, {})
        return _shares(start, end, self._tasks) or [Share(())]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if partition.own:
            yield from _rows(partition)


class RangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans what each micro-batch reads: what has come to the partitions since the last one.

    A run that reads only what is there (AvailableNow) ends where the partitions ended when it began. PySpark 4.1 does
    not say where a micro-batch starts; the reader then goes on from the last one that it has planned.
    """

    def __init__(self, settings: TopicSettings, tasks: int, watermarks: PartitionWatermarks | None = None) -> None:
        self._settings, self._tasks, self._watermarks = settings, tasks, watermarks
        self._brokers: Brokers | None = None
        self._what_is_there = False
        self._target: Offsets | None = None
        self._last: Position | None = None
        self._committed: Offsets | None = None
        self._commits_from = -math.inf

    @property
    def brokers(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._settings)
        return self._brokers

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._what_is_there = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._last = self.brokers.first_position()
        self._committed = self._last.next
        return self._last.to_json()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        if start is None:
            position = self._last or self.brokers.first_position()
            self._last = self._advanced(position)
            return self._last.to_json()
        position = Position.of_json(start)
        self._commit(position)
        after = self._advanced(position)
        return start if after is position else after.to_json()

    def _advanced(self, position: Position) -> Position:
        latest, begun = self.brokers.latest(position)
        if position.stop is not None:  # which is there; messages of a transaction that is open are waited for
            latest = {p: max(offset, position.stop.get(p, 0)) for p, offset in latest.items()}
        if self._what_is_there:
            if self._target is None:
                self._target = latest
            latest = {p: min(offset, self._target[p]) for p, offset in latest.items() if p in self._target}
            begun = {p: offset for p, offset in begun.items() if p in self._target}
        after = position.advanced(latest, self._settings.most, begun)
        if after is not position:
            after = replace(after, ids={**position.ids, **self.brokers.ids})
        return after if self._watermarks is None else self._watermarks.timed(position, after, latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return _shares(Position.of_json(start), Position.of_json(end), self._tasks)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit(Position.of_json(end))

    def _commit(self, written: Position) -> None:
        """Commits the offsets of a position, all messages before which are written. Spark calls ``commit`` only when
        another micro-batch follows; the last one of a silent topic is committed when Spark asks what follows it. What
        brokers do not take is tried again, though not with every question of Spark's.
        """
        if written.next != self._committed and time.monotonic() >= self._commits_from:
            if self.brokers.commit(written.next):
                self._committed = written.next
            else:
                self._commits_from = time.monotonic() + _COMMIT_AGAIN_SECONDS

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()


# --- what brokers are asked -----------------------------------------------------------------------------------


class HeldPartition(NamedTuple):
    """The messages that a partition holds: from the offset ``begin`` to before ``end``. ``committed``: the offset from
    which a consumer group goes on; None without one.
    """

    partition: Partition
    begin: int
    end: int
    committed: int | None


class Brokers:
    """Asks the brokers of a table which partitions there are, and which offsets they have."""

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._listed: tuple[float, list[Partition]] | None = None
        self._refusals: list[str] = []
        self.ids: dict[str, str] = {}
        """What Kafka calls the topics, as they were listed last."""
        self._admin = self._client()

    def close(self) -> None:
        """Nothing can be asked any more."""
        admin.close(self._admin)

    def _client(self) -> AdminClient:
        from confluent_kafka import KafkaException  # an optional package

        consumer_of(self._settings.properties).close()  # which knows properties that the other would ignore
        kinds = ("isolation.level", "fetch.", "max.partition.fetch", "check.crcs", "session.timeout", "heartbeat.")
        own: dict[str, Any] = {k: v for k, v in self._settings.properties.items() if not k.startswith(kinds)}
        try:
            return admin.admin_of(self, {**own, "error_cb": partial(_hear, self._refusals)})
        except KafkaException as error:
            raise wrong_properties(error) from None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turns errors of the client into ConnectorError SS590."""
        from confluent_kafka import KafkaException  # an optional package

        self._serve()
        try:
            yield
        except KafkaException as error:
            self._serve()
            refusal = self._refusals[-1] if self._refusals else None
            raise unreachable(self._settings.properties, error, refusal) from None

    def _serve(self) -> None:
        """Lets librdkafka renew tokens, and say what is wrong."""
        self._admin.poll(0)

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """What is answered once leaders and coordinators are elected. ConnectorError SS590 where they are not."""
        from confluent_kafka import KafkaError, KafkaException  # an optional package

        passing = (
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
            KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE,
            KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
        )  # fmt: skip
        deadline = time.monotonic() + _SECONDS
        self._serve()
        while True:
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in passing or time.monotonic() > deadline:
                    with self._asking():
                        raise
            time.sleep(0.1)

    def first_position(self) -> Position:
        """Where a job without checkpoint begins, and where a bounded table ends.

        ConnectorError SS504 where a partition ends before the offset at which the table should.
        """
        found = self._partitions()
        begin = self._at(self._settings.start, found, _earliest)
        if self._settings.stop is None:
            return Position(begin, ids=self.ids)
        stop = self._at(self._settings.stop, found, _latest)
        self._require_reached(stop)
        return Position(begin, stop, ids=self.ids)

    def _require_reached(self, stop: Offsets) -> None:
        ends = self._offsets(stop, _latest(), uncommitted=True)
        for partition, offset in stop.items():
            if offset > (end := ends.get(partition, 0)):
                name = f"{partition.topic}[{partition.number}]"
                message = f"{name} ends at offset {end}, and the table should at {offset} ('scan.bounded.mode')"
                hint = "Write an offset that is there, or take latest-offset."
                raise ConnectorError(WRONG_VALUE, message, hint=hint)

    def latest(self, position: Position) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Returns where partitions end, and where those begin that ``position`` lacks or that have lost messages.

        ConnectorError SS592 where messages are gone, unless the table goes on behind them.
        """
        known, earliest, latest = self._bounds(position)
        others = [topic for topic, number in position.ids.items() if self.ids.get(topic, number) != number]
        if others:
            lose(f'topic "{others[0]}" was deleted and made again', skips_lost=self._settings.skips_lost)
        new = [p for p in known if p not in position.next or p.topic in others]
        there = [p for p in known if p in position.next and p.topic not in others]
        at = {p: position.next[p] for p in there}
        losses = lost(at, {p: earliest[p] for p in there}, {p: latest[p] for p in there})
        losses = [
            loss
            for loss in losses
            if position.stop is None or at[loss.partition] < position.stop.get(loss.partition, 0)
        ]
        self._accept(losses)
        begun = after_losses({p: earliest[p] for p in new}, losses, earliest)
        gone = [p for p in position.next if p not in known and self._misses(p, position)]
        if gone and not self._settings.skips_lost:
            raise losing(f"{gone[0].topic}[{gone[0].number}] does not exist any more")
        return latest, begun

    def _bounds(self, position: Position) -> tuple[list[Partition], dict[Partition, int], dict[Partition, int]]:
        """The partitions to read, and where each begins and ends. A list that names what is gone is made again."""
        while True:
            known = self._partitions(position.next)
            known = known if position.stop is None else [p for p in known if p in position.next]
            again = self._listed is not None and self._listed[0] < time.monotonic() - 1
            try:
                return known, self._offsets(known, _earliest()), self._offsets(known, _latest())
            except ConnectorError:
                if not again:
                    raise
                self._listed = (-math.inf, known)

    def _misses(self, partition: Partition, position: Position) -> bool:
        return position.stop is None or position.next[partition] < position.stop.get(partition, 0)

    def _accept(self, losses: Iterable[Lost]) -> None:
        text = "; ".join(map(str, losses))
        if text:
            lose(text, skips_lost=self._settings.skips_lost)

    # --- partitions -----------------------------------------------------------------------------------------------

    def _partitions(self, known: Iterable[Partition] = ()) -> list[Partition]:
        """The partitions of the topics, as they were at most so long ago as ``discovery_ms`` says."""
        now = time.monotonic()
        if self._listed is None or now - self._listed[0] > self._settings.discovery_ms / 1000:
            found = self._list()
            if set(known) - set(found):  # a list may be incomplete while brokers elect leaders
                time.sleep(1)
                found = self._list()
            self._listed = (now, found)
            self.ids = self._ids({p.topic for p in found})
        return self._listed[1]

    def _ids(self, topics: Collection[str]) -> dict[str, str]:
        """What Kafka calls topics; none of those to which a broker gives no id, as before version 2.8."""
        from confluent_kafka import KafkaException, TopicCollection  # an optional package

        if not topics:
            return {}
        answers = self._admin.describe_topics(TopicCollection([*topics]), request_timeout=_SECONDS)
        ids: dict[str, str] = {}
        for topic, answer in answers.items():
            with suppress(KafkaException):  # it may be gone meanwhile
                ids[topic] = str(answer.result().topic_id)
        return {topic: number for topic, number in ids.items() if number != _NO_ID}

    def _list(self) -> list[Partition]:
        with self._asking():
            topics = self._admin.list_topics(timeout=_SECONDS).topics
        pattern = self._settings.pattern
        if pattern is not None:
            names = [name for name in topics if re.fullmatch(pattern, name) and not name.startswith("__")]
        else:
            names = list(self._settings.topics)
            missing = [name for name in names if name not in topics]
            if missing and self._listed is None:
                message = f'topic "{missing[0]}" does not exist'
                hint = "Create it, or correct the option \"topic\"; 'topic-pattern' waits for topics to appear."
                raise ConnectorError(UNREACHABLE, message, hint=hint)
        return sorted(Partition(name, n) for name in names if name in topics for n in topics[name].partitions)

    # --- offsets --------------------------------------------------------------------------------------------------

    def _at(self, bound: Bound, partitions: list[Partition], otherwise: Callable[[], Any]) -> dict[Partition, int]:
        """The offsets of a bound. ``otherwise``: those of partitions that ``specific-offsets`` do not name."""
        match bound.mode:
            case "earliest-offset":
                return self._offsets(partitions, _earliest())
            case "latest-offset":
                return self._offsets(partitions, _latest())
            case "timestamp":
                assert bound.millis is not None
                at_time = self._offsets(partitions, _at_time(bound.millis))
                behind_all = self._offsets([p for p in partitions if at_time[p] < 0], _latest())
                return {**at_time, **behind_all}
            case "specific-offsets":
                unnamed = self._offsets([p for p in partitions if p.number not in bound.offsets], otherwise())
                return {**{p: bound.offsets[p.number] for p in partitions if p.number in bound.offsets}, **unnamed}
            case _:
                return self._of_group(partitions)

    def _offsets(
        self, partitions: Iterable[Partition], spec: Any, *, uncommitted: bool = False
    ) -> dict[Partition, int]:
        """The offsets of ``spec``. ``uncommitted``: messages of open transactions are there, too."""
        from confluent_kafka import IsolationLevel, TopicPartition  # an optional package

        asked = {TopicPartition(p.topic, p.number): spec for p in partitions}
        if not asked:
            return {}
        level = self._settings.properties.get("isolation.level", "read_committed")
        uncommitted = uncommitted or level == "read_uncommitted"
        isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED

        def ask() -> dict[Partition, int]:
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=_SECONDS)
            return {Partition(tp.topic, tp.partition): answer.result().offset for tp, answer in answers.items()}

        return self._patiently(ask)

    def held(self) -> list[HeldPartition]:
        """The partitions of the topics: what they hold, and what the consumer group has committed of them."""
        known = self._partitions()
        earliest, latest = self._offsets(known, _earliest()), self._offsets(known, _latest())
        committed = self._committed(known) if self._settings.group is not None else {}
        committed = {p: offset for p, offset in committed.items() if offset >= 0}
        return [HeldPartition(p, earliest[p], latest[p], committed.get(p)) for p in known]

    def _committed(self, partitions: list[Partition]) -> dict[Partition, int]:
        """What the consumer group has committed; less than 0 for partitions of which it has nothing."""
        from confluent_kafka import (  # an optional package
            ConsumerGroupTopicPartitions,
            KafkaException,
            TopicPartition,
        )

        group = self._settings.group
        assert group is not None
        if not partitions:
            return {}
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(p.topic, p.number) for p in partitions])

        def ask() -> dict[Partition, int]:
            (answer,) = self._admin.list_consumer_group_offsets([asked], request_timeout=_SECONDS).values()
            known = answer.result().topic_partitions
            for error in (t.error for t in known if t.error is not None):
                raise KafkaException(error)
            return {Partition(t.topic, t.partition): t.offset for t in known}

        return self._patiently(ask)

    def _of_group(self, partitions: list[Partition]) -> dict[Partition, int]:
        group, committed = self._settings.group, self._committed(partitions)
        missing = [p for p in partitions if committed.get(p, -1) < 0]
        if missing and self._settings.reset == "none":
            message = f'consumer group "{group}" has no offset of {missing[0].topic}[{missing[0].number}]'
            hint = "Add 'properties.auto.offset.reset' = 'earliest' or 'latest', or choose another startup mode."
            raise ConnectorError(NO_OFFSETS, message, hint=hint)
        spec = _earliest() if self._settings.reset == "earliest" else _latest()
        return {p: committed[p] for p in partitions if p not in missing} | self._offsets(missing, spec)

    def commit(self, offsets: Offsets) -> bool:
        """Commits offsets of the consumer group, for those who watch its lag. The job does not depend on them: where
        brokers do not take them, the answer is False, and the log has a warning.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition  # an optional package

        if self._settings.group is None or not offsets:
            return True
        read = [TopicPartition(p.topic, p.number, offset) for p, offset in offsets.items()]
        try:
            answers = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._settings.group, read)], request_timeout=_COMMIT_SECONDS
            )
            for answer in answers.values():
                for error in (t.error for t in answer.result().topic_partitions if t.error is not None):
                    raise KafkaException(error)
        except KafkaException as error:
            log = logging.getLogger("sqlstream.kafka")
            log.warning(
                'offsets of consumer group "%s" are not committed yet: %s', self._settings.group, reason_of(error)
            )
            return False
        return True


def _hear(refusals: list[str], error: KafkaError) -> None:
    """Keeps why brokers refuse us, of which what a request fails with says nothing."""
    from confluent_kafka import KafkaError  # an optional package

    if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        refusals[:] = [error.str()]


# --- which offset of a partition is asked for, as the client spells it --------------------------------------------


def _earliest() -> Any:
    from confluent_kafka import admin  # an optional package

    return admin.OffsetSpec.earliest()  # type: ignore[no-untyped-call]


def _latest() -> Any:
    from confluent_kafka import admin  # an optional package

    return admin.OffsetSpec.latest()  # type: ignore[no-untyped-call]


def _at_time(millis: int) -> Any:
    from confluent_kafka import admin  # an optional package

    return admin.OffsetSpec.for_timestamp(millis)
