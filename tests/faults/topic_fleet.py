"""The jobs of the fault test with topics, their topics and the messages that are sent to these."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sqlstream.errors import ConnectorError
from sqlstream.sources.kafka.brokers import Brokers
from sqlstream.sources.kafka.offsets import Bound, TopicSettings
from sqlstream.udfs.kafka.admin import admin_of
from tests.faults.kafka_cluster import BROKERS, LOGIN, Servers
from tests.faults.running import Fleet

PARTITIONS = 2
_SECONDS = 60
_START = datetime(2026, 1, 1)
_SCHEMA = {
    "type": "record",
    "name": "numbered",
    "fields": [{"name": name, "type": "long"} for name in ("n", "k")],
}

_SOURCE = """\
CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{prefix}-{topic}', {format},
    'properties.bootstrap.servers' = '{brokers}', {login}, 'properties.group.id' = '{prefix}-{name}',
    'scan.startup.mode' = 'earliest-offset', 'source.max-rows-per-trigger' = '150',
    'scan.topic-partition-discovery.interval' = '500 ms'{more});
"""
_SINK = """\
CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{prefix}-{name}', 'format' = 'json',
    'properties.bootstrap.servers' = '{brokers}', {login}, 'topic.create' = 'true', 'topic.partitions' = '2',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}-{name}');
"""
_JSON, _AVRO = "'format' = 'json'", "'format' = 'avro-confluent', 'avro-confluent.url' = '{registry}'"
_TIMED = "n BIGINT, k BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND"


@dataclass(frozen=True)
class Kind:
    """``topic``: what the job reads, with columns and format; ``work`` is its statement, which writes ``written``."""

    topic: str
    columns: str
    format: str
    written: str
    work: str


KINDS: Mapping[str, Kind] = {
    "copies": Kind("numbers", _TIMED, _JSON, "n BIGINT, k BIGINT", "SELECT n, k FROM copies_read"),
    "totals": Kind(
        "numbers",
        _TIMED,
        _JSON,
        "k BIGINT, w STRING, c BIGINT, s BIGINT",
        "SELECT k, CAST(window_start AS STRING), COUNT(*), SUM(n) "
        "FROM TUMBLE(TABLE totals_read, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY k, window_start, window_end",
    ),
    "others": Kind("records", "n BIGINT, k BIGINT", _AVRO, "n BIGINT, k BIGINT", "SELECT n, k FROM others_read"),
}
TOPICS = tuple(dict.fromkeys(kind.topic for kind in KINDS.values()))


@dataclass
class TopicFleet(Fleet):
    """The jobs over topics whose names begin with ``prefix``, and what has been sent to these: the first ``sent`` of
    ``total`` rows. ``more``: options that the tables that are read were given after a failure.
    """

    servers: Servers = field(kw_only=True)
    prefix: str = field(kw_only=True)
    total: int = field(kw_only=True)
    sent: int = 0
    partitions: int = PARTITIONS
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        brokers = {"bootstrap.servers": self.servers.address}
        self._admin: AdminClient = admin_of(self, brokers)
        # A first message that is sent again, since its topic has no leader yet, must not arrive behind later ones.
        self._producer = Producer({**brokers, "linger.ms": 5, "enable.idempotence": True})
        self._schema = fastavro.parse_schema(_SCHEMA)
        self._brokers = {name: Brokers(self._settings(name)) for name in self.kinds}
        self._id = self.servers.registry.register(f"{self.prefix}-records-value", _SCHEMA)

    def prepare(self) -> None:
        self.checkpoints.mkdir(parents=True)
        for kind in self.kinds:
            (self.folder / kind).mkdir()
        self.create()
        self.declare()

    def declare(self) -> None:
        """Write the scripts, which jobs read that are started from now on."""
        more = "".join(f", '{key}' = '{value}'" for key, value in self.more.items())
        brokers, registry = self.servers.logins, self.servers.registry.url
        for name in self.kinds:
            kind = KINDS[name]
            given = {"prefix": self.prefix, "brokers": brokers, "login": LOGIN, "more": more, "topic": kind.topic}
            form = kind.format.format(registry=registry)
            source = _SOURCE.format(name=f"{name}_read", columns=kind.columns, format=form, **given)
            sink = _SINK.format(name=name, columns=kind.written, **given)
            text = f"{source}{sink}INSERT INTO {name} {kind.work}"
            (self.folder / name / "job.sql").write_text(text)

    # --- topics and messages ---

    def create(self) -> None:
        names = [f"{self.prefix}-{topic}" for topic in TOPICS]
        self._patiently(lambda: self._admin.create_topics([NewTopic(name, self.partitions, BROKERS) for name in names]))

    def delete(self) -> None:
        """Until the brokers do not know the topics any more."""
        names = [f"{self.prefix}-{topic}" for topic in TOPICS]
        self._patiently(lambda: self._admin.delete_topics(names))
        while {*names} & {*self._admin.list_topics(timeout=_SECONDS).topics}:
            time.sleep(0.2)

    def add_partition(self) -> None:
        """To each topic; messages go there from now on, too."""
        self.partitions += 1
        wanted = [NewPartitions(f"{self.prefix}-{topic}", self.partitions) for topic in TOPICS]
        self._patiently(lambda: self._admin.create_partitions(wanted))

    def leaders(self) -> set[int]:
        """The numbers of the brokers that lead partitions."""
        topics = self._admin.list_topics(timeout=_SECONDS).topics
        return {p.leader for name in TOPICS for p in topics[f"{self.prefix}-{name}"].partitions.values()}

    def _patiently(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        """What brokers answer that have just started."""
        until = time.monotonic() + _SECONDS
        while True:
            try:
                for answer in ask().values():
                    answer.result(_SECONDS)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
            else:
                return

    def hand_out(self, share: float) -> None:
        """Send rows until a share of all is there. With all of them jobs that are started are drained."""
        for n in range(self.sent, round(self.total * share)):
            at = (_START + timedelta(milliseconds=50 * n)).isoformat(" ", "milliseconds")
            self.send("numbers", json.dumps({"n": n, "k": n % 7, "at": at}).encode(), n)
            record = io.BytesIO()
            fastavro.schemaless_writer(record, self._schema, {"n": n, "k": n % 7})
            self.send("records", b"\0" + self._id.to_bytes(4, "big") + record.getvalue(), n)
            self.sent = n + 1
        self.flush()

    def send(self, topic: str, value: bytes, number: int) -> None:
        """Sends a message to the partition of its number, of which the producer may hear later than it was added."""
        name, until = f"{self.prefix}-{topic}", time.monotonic() + _SECONDS
        while True:
            try:
                self._producer.produce(name, value, partition=number % self.partitions)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or time.monotonic() > until:
                    raise
                with suppress(KafkaException):  # no broker may be there to be asked
                    self._producer.list_topics(name, timeout=1)
                time.sleep(0.1)
            else:
                return

    def flush(self) -> None:
        if self._producer.flush(_SECONDS):
            raise SystemExit("the broker does not take the messages of the test")

    def has_written_all(self, name: str) -> bool:
        """Whether a job has written all that was sent, by the offsets of its group; False while brokers start."""
        with suppress(ConnectorError):
            return sum(held.end - (held.committed or 0) for held in self._brokers[name].held()) == 0
        return False

    def _settings(self, name: str) -> TopicSettings:
        properties = {"bootstrap.servers": self.servers.address}
        topics, group = (f"{self.prefix}-{KINDS[name].topic}",), f"{self.prefix}-{name}_read"
        return TopicSettings(properties, topics, None, group, Bound("earliest-offset"), None, "none", None, 0, False)

    # --- jobs ---

    def ask(self, settings: Mapping[str, str], kinds: Sequence[str]) -> None:
        super().ask(settings, kinds)
        if self.sent == self.total:
            self.tell(f"drain {{}} {' '.join(kinds)}")

    def rows(self, kind: str) -> dict[str, pa.Table]:
        messages = (json.loads(value) for value in self._committed(f"{self.prefix}-{kind}"))
        rows = pa.Table.from_pylist([*messages])
        return {kind: rows.sort_by([(name, "ascending") for name in rows.column_names]) if rows.num_rows else rows}

    def _committed(self, topic: str) -> Iterator[bytes]:
        """The values of a topic's committed messages."""
        consumer = Consumer({
            "bootstrap.servers": self.servers.address, "group.id": "readers", "enable.partition.eof": True,
            "enable.auto.commit": False, "isolation.level": "read_committed",
        })  # fmt: skip
        partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ended = 0
        while ended < len(partitions):
            for message in consumer.consume(1000, 0.2):
                value = message.value()
                if message.error() is not None:
                    ended += 1
                elif value is not None:
                    yield value
        consumer.close()
