"""Jobs over topics of Kafka at random moments of a broker, a registry and the jobs themselves.

``python -m tests.faults.topics --strikes 30``. A broker and a registry of its own
serve three jobs in one process: copies, windows and records of Avro, each written by transactions. Messages come from
strike to strike. Whenever a job has failed it is started again; in the end what readers of committed messages see must
be what undisturbed jobs have written. Where a message cannot be read, messages are gone, or the registry is away, the
job fails with a hint what to do, which is then done.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sqlstream.connectors.kafka.brokers import Brokers
from sqlstream.connectors.kafka.offsets import Bound, TopicSettings
from sqlstream.errors import ConnectorError, SqlStreamError
from sqlstream.testing.kafka_broker import Broker, BrokerError, kafka_jars, running_broker
from sqlstream.udfs.kafka.admin import admin_of
from tests.faults.compare import difference
from tests.faults.inject import Siege
from tests.faults.report import Outcome, Report
from tests.faults.running import Fleet, deadline
from tests.faults.struck import Records
from tests.schema_registry import TestRegistry, serving

FAULTS: Mapping[str, int] = {
    "driver": 8, "worker": 6, "broker stop": 5, "broker kill": 5, "partitions": 2, "registry": 2, "poison": 1,
    "recreated": 1,
}  # fmt: skip
"""How many of thirty strikes are of each kind. The last two change how the tables are declared from then on."""

THIRTY = sum(FAULTS.values())
_HINTED = ("poison", "recreated", "registry")
ROWS_PER_STRIKE = 300
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
    'properties.bootstrap.servers' = '{brokers}', 'properties.group.id' = '{prefix}-{name}',
    'scan.startup.mode' = 'earliest-offset', 'source.max-rows-per-trigger' = '150',
    'scan.topic-partition-discovery.interval' = '500 ms'{more});
"""
_SINK = """\
CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{prefix}-{name}', 'format' = 'json',
    'properties.bootstrap.servers' = '{brokers}', 'topic.create' = 'true', 'topic.partitions' = '2',
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


@dataclass(frozen=True)
class Servers:
    """What the jobs depend on."""

    broker: Broker
    registry: TestRegistry


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
        brokers = {"bootstrap.servers": self.servers.broker.address}
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
        brokers, registry = self.servers.broker.address, self.servers.registry.url
        for name in self.kinds:
            kind = KINDS[name]
            given = {"prefix": self.prefix, "brokers": brokers, "more": more, "topic": kind.topic}
            form = kind.format.format(registry=registry)
            source = _SOURCE.format(name=f"{name}_read", columns=kind.columns, format=form, **given)
            sink = _SINK.format(name=name, columns=kind.written, **given)
            text = f"{source}{sink}INSERT INTO {name} {kind.work}"
            (self.folder / name / "job.sql").write_text(text)

    # --- topics and messages ---

    def create(self) -> None:
        names = [f"{self.prefix}-{topic}" for topic in TOPICS]
        self._patiently(lambda: self._admin.create_topics([NewTopic(name, self.partitions, 1) for name in names]))

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
        self._producer.produce(f"{self.prefix}-{topic}", value, partition=number % self.partitions)

    def flush(self) -> None:
        if self._producer.flush(_SECONDS):
            raise SystemExit("the broker does not take the messages of the test")

    def has_written_all(self, name: str) -> bool:
        """Whether a job has written all that was sent, by the offsets of its group; False while brokers start."""
        with suppress(ConnectorError):
            return sum(held.end - (held.committed or 0) for held in self._brokers[name].held()) == 0
        return False

    def _settings(self, name: str) -> TopicSettings:
        properties = {"bootstrap.servers": self.servers.broker.address}
        topics, group = (f"{self.prefix}-{KINDS[name].topic}",), f"{self.prefix}-{name}_read"
        return TopicSettings(properties, topics, None, group, Bound("earliest-offset"), None, "none", None, 0, False)

    # --- jobs ---

    def ask(self, strategy: str, kinds: Sequence[str]) -> None:
        super().ask(strategy, kinds)
        if self.sent == self.total:
            self.tell(f"drain none {' '.join(kinds)}")

    def rows(self, kind: str) -> dict[str, pa.Table]:
        messages = (json.loads(value) for value in self._committed(f"{self.prefix}-{kind}"))
        rows = pa.Table.from_pylist([*messages])
        return {kind: rows.sort_by([(name, "ascending") for name in rows.column_names]) if rows.num_rows else rows}

    def _committed(self, topic: str) -> Iterator[bytes]:
        """The values of a topic's committed messages."""
        consumer = Consumer({
            "bootstrap.servers": self.servers.broker.address, "group.id": "readers", "enable.partition.eof": True,
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


class TopicSiege(Siege):
    """Strikes jobs over topics, and what they read and write."""

    def __init__(self, fleet: TopicFleet, chance: random.Random) -> None:
        super().__init__(fleet, chance)
        self._topics = fleet
        self._servers = fleet.servers

    def _strike(self, fault: str) -> None:
        match fault:
            case "broker stop":
                self._restart_broker(self._servers.broker.stop)
            case "broker kill":
                self._restart_broker(self._servers.broker.kill)
            case "partitions":
                self._topics.add_partition()
            case "registry":
                self._servers.registry.away = sys.maxsize
                self._start_and_fail("goes on without a registry", ["others"])
                self._servers.registry.away = 0
            case "poison":
                self._poison()
            case "recreated":
                self._recreate()
            case _:
                super()._strike(fault)

    def _wait_for_epochs(self) -> None:
        """As of any job, unless one has nothing to do any more."""
        before = {kind: self._fleet.epoch(kind) for kind in self.records.living}

        def is_further(kind: str) -> bool:
            return self._fleet.epoch(kind) > before[kind] or self._topics.has_written_all(kind)

        self._tend_until(lambda: all(map(is_further, self.records.living)))

    def _restart_broker(self, end: Callable[[], None]) -> None:
        end()
        time.sleep(self._chance.uniform(0, 3))
        self._servers.broker.start()

    def _poison(self) -> None:
        """A message that cannot be read: jobs fail, and say where it is and what lets them go on."""
        for topic in TOPICS:
            self._topics.send(topic, b"no such format", 0)
        self._topics.flush()
        self._start_and_fail("goes on behind a message that cannot be read", self._topics.kinds)
        self._allow("on-error", "skip")

    def _recreate(self) -> None:
        """Delete the topics that are read and make them again: jobs fail, and say what lets them go on. All has been
        written before, so nothing is lost.
        """
        self._tend_until(lambda: all(map(self._topics.has_written_all, self.records.living)))
        self._fleet.kill()
        self._topics.delete()
        self._topics.create()
        self._start_and_fail("goes on with another topic of the same name", self._topics.kinds)
        self._allow("on-data-loss", "skip")

    def _allow(self, option: str, value: str) -> None:
        self._topics.more[option] = value
        self._topics.declare()

    def _start_and_fail(self, otherwise: str, kinds: Iterable[str]) -> None:
        """Start the jobs without a restart strategy, and wait until those of the kinds have failed."""
        self._fleet.start()
        for kind in self.records.living:
            self.records.states[kind] = "asked"
        self._fleet.ask("none", self.records.living)
        until, failing = deadline(), {*kinds} & {*self.records.living}
        while failing & {*self.records.in_state("running", "asked")} and self._fleet.lives:
            self._hear()
            if time.monotonic() > until:
                for kind in failing & {*self.records.in_state("running", "asked")}:
                    self.records.of(kind, self.records.fault).unclear.append(otherwise)
                return


# --- the whole ---------------------------------------------------------------------------------------------------


def planned(strikes: int, chance: random.Random) -> list[str]:
    """So many faults in any order: of each its share of thirty, or at least one as far as they go."""
    whole = [fault for fault, count in FAULTS.items() for _ in range(count)]
    chosen = whole if strikes >= THIRTY else [*FAULTS, *chance.sample(whole, THIRTY)][:strikes]
    return chance.sample(chosen, len(chosen))


def topics_hold(folder: Path, strikes: Sequence[str], chance: random.Random, say: Callable[[str], None]) -> bool:
    """Strikes jobs over topics. Whether all rows are there in the end, each once, and all failures said what to do."""
    try:
        kafka_jars()
    except (BrokerError, SqlStreamError) as error:
        say(f"topics: not tried, {error}")
        return False
    folder.mkdir(parents=True, exist_ok=True)
    total = ROWS_PER_STRIKE * (len(strikes) + 1)
    with running_broker(folder / "broker") as broker, serving() as registry:
        fleet_of = partial(_fleet, servers=Servers(broker, registry), total=total)
        calm = fleet_of(folder / "calm", prefix="calm")
        expected = _undisturbed(calm)
        struck = fleet_of(folder / "struck", prefix="struck")
        title = f"{total:,} messages a topic, {len(strikes)} strikes."
        report = Report(folder / "table.txt", argparse.Namespace(rows=total, files=0, seed=0), title)
        struck.prepare()
        siege = TopicSiege(struck, chance)
        siege.run(strikes, lambda number: report.on_strike(siege.records, strikes, number))
        for kind in struck.kinds:
            stuck = siege.records.states[kind] == "stuck"
            how = None if stuck else difference(expected[kind][kind], struck.rows(kind)[kind])
            report.add(siege.records, strikes, kind, Outcome(how, stuck=stuck))
    report.end()
    unhelpful = _unhelpful(siege.records)
    for message in unhelpful:
        say(f"topics: no word of what to do: {message}")
    say(f"topics: {len(strikes)} strikes, {struck.starts} starts")
    return report.holds and not unhelpful


def _fleet(folder: Path, servers: Servers, prefix: str, total: int) -> TopicFleet:
    return TopicFleet(tuple(KINDS), folder, folder, "local[2]", servers=servers, prefix=prefix, total=total)


def _undisturbed(fleet: TopicFleet) -> dict[str, dict[str, pa.Table]]:
    fleet.prepare()
    siege = TopicSiege(fleet, random.Random(0))
    siege.run([])
    if stuck := siege.records.in_state("stuck"):
        raise SystemExit(f"{stuck}: undisturbed jobs failed; see {fleet.log}")
    return {kind: fleet.rows(kind) for kind in fleet.kinds}


def _unhelpful(records: Records) -> list[str]:
    """Messages of failures that somebody has to mend, and that say not how."""
    of_hinted = (struck.failed for (_, fault), struck in records.struck.items() if fault in _HINTED)
    return [message for messages in of_hinted for message in messages if "HINT: " not in message]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Faults of Kafka, of a registry and of jobs over topics.")
    parser.add_argument("--strikes", type=int, default=THIRTY, help="how many (default: %(default)s)")
    parser.add_argument("--faults", type=lambda text: text.split(","), help="these in this order instead")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), help="repeats a run")
    parser.add_argument("--folder", type=Path, help="where all is kept")
    chosen = parser.parse_args(arguments)
    chance = random.Random(f"{chosen.seed}/topics")
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="sqlstream-topics-"))
    print(f"seed {chosen.seed}; {folder}", flush=True)
    strikes = chosen.faults or planned(chosen.strikes, chance)
    return 0 if topics_hold(folder, strikes, chance, partial(print, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
