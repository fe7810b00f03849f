"""Topics of Kafka as a stream of ranges of offsets: a source of Spark that plans what a micro-batch reads.

Spark writes the position of each micro-batch into its checkpoint before the micro-batch reads, so one that is repeated
reads the same messages.
"""

from __future__ import annotations

import math
import pickle
import time
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.offsets import OffsetRange, Offsets, Partition, Position, TopicSettings, ranges, shared_out
from sqlstream.sources.kafka.watermarks import IdlePartitions, PartitionWatermarks
from sqlstream.sources.pace import Pace
from sqlstream.spark.streams import SupportsTriggerAvailableNow
from sqlstream.udfs.kafka.fetch import RANGES, RANGES_DDL
from sqlstream.udfs.kafka.reader import Span
from sqlstream.udfs.kafka.samples import SizeBound
from sqlstream.udfs.kafka.times import NewestTimes, TopicTimes

_COMMIT_AGAIN_SECONDS = 5.0
SETTINGS = "secret"
"""The option of the data source with all settings, whose name Spark knows to hide."""
WATERMARK = "watermark_secret"
"""The option with a TopicWatermark, which may hold the secrets of a registry of schemas."""


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
            found = newest.of({r.partition: Span(r.begin, r.end, r.id) for r in ranges})
            return {Partition(*slot): time for slot, time in found.items()}

        return PartitionWatermarks(look, IdlePartitions(self.idle_ms), self.by_rows)


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
        settings = TopicSettings.of_json(self.options[SETTINGS])
        given = self.options.get(WATERMARK)
        watermark: TopicWatermark | None = None if given is None else pickle.loads(b64decode(given))
        watermarks = None if watermark is None else watermark.of(settings.properties)
        return RangeStream(settings, int(self.options["tasks"]), watermarks)

    def reader(self, schema: object) -> WholeTopics:
        return WholeTopics(TopicSettings.of_json(self.options[SETTINGS]), int(self.options["tasks"]))


class Share(InputPartition):
    """The ranges that one task reads, and the time that the watermark may reach behind the micro-batch."""

    def __init__(self, own: tuple[OffsetRange, ...], lift: int | None = None) -> None:
        self.own = own
        self.lift = lift


def _rows(share: Any) -> Iterator[pa.RecordBatch]:
    ranges_ = ((r.partition.topic, r.id, r.partition.number, r.begin, r.end, share.lift) for r in share.own)
    columns = zip(*(ranges_ if share.own else [(None, None, None, None, None, share.lift)]), strict=True)
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
        self._pace = Pace(settings.most, settings.wanted_ms)
        self._brokers: Brokers | None = None
        self._what_is_there = False
        self._target: Offsets | None = None
        self._last: Position | None = None
        self._committed: Offsets | None = None
        self._commits_from = -math.inf
        self._latest: Offsets | None = None
        self._sizes = SizeBound(settings.properties, settings.most_bytes)

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

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Where partitions ended when the micro-batch was planned, by which metrics tell how many messages wait."""
        return None if self._latest is None else Position(self._latest).to_json()

    def _advanced(self, position: Position) -> Position:
        latest, begun = self.brokers.latest(position)
        self._latest = latest
        if position.stop is not None:  # which is there; messages of a transaction that is open are waited for
            latest = {p: max(offset, position.stop.get(p, 0)) for p, offset in latest.items()}
        if self._what_is_there:
            if self._target is None:
                self._target = latest
            latest = {p: min(offset, self._target[p]) for p, offset in latest.items() if p in self._target}
            begun = {p: offset for p, offset in begun.items() if p in self._target}
        after = self._bounded(position, latest, begun)
        if after is not position:
            self._pace.reads(sum(r.end - r.begin for r in ranges(position, after)))
            after = after.of_topics(self.brokers.ids, latest)
        if self._watermarks is None:
            return after
        waits = self._watermarks.idle.timeout_ms and not self._what_is_there
        ends = self.brokers.ends(latest) if waits else latest  # a partition with an open transaction is not idle
        return self._watermarks.timed(position, after, ends)

    def _bounded(self, position: Position, latest: Offsets, begun: Offsets) -> Position:
        """The position after the next micro-batch, by the bounds of messages, time and bytes."""
        after = position.advanced(latest, self._pace.room(), begun)
        fits = self._sizes.fits({r.partition: Span(r.begin, r.end, r.id) for r in ranges(position, after)})
        return after if fits is None else position.advanced(latest, fits, begun)

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
