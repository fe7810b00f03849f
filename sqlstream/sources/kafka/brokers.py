"""The brokers of a table: which partitions its topics have, their offsets, and those of its consumer group."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlstream.errors import ConnectorError, repeating
from sqlstream.options import WRONG_VALUE
from sqlstream.sources.kafka.groups import ConsumerGroup
from sqlstream.sources.kafka.offsets import (
    Bound,
    Lost,
    Offsets,
    Partition,
    Position,
    TopicSettings,
    after_losses,
    lost,
)
from sqlstream.udfs.kafka import admin
from sqlstream.udfs.kafka.clients import (
    UNREACHABLE,
    consumer_of,
    is_of_coordinator,
    reason_of,
    unreachable,
    wrong_properties,
)
from sqlstream.udfs.kafka.reader import lose, losing
from sqlstream.udfs.kafka.tokens import LOG, require_token

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_Answer = TypeVar("_Answer")

NO_OFFSETS = repeating("SS593")
_SECONDS = 30
_INCOMPLETE_SECONDS = 5
"""So long a partition must be missing from lists until it is gone."""
_AGAIN_SECONDS = 5
_COMMIT_SECONDS = 5
"""A micro-batch waits for a commit, which is for those who watch the group."""
_OF_KAFKA = frozenset({
    "__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state",
})  # fmt: skip
"""Kafka's own topics, which no pattern means; others may begin like them, such as the heartbeats of Debezium."""
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


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
        self._gone: set[Partition] = set()
        self._refusals: list[str] = []
        self.ids: dict[str, str] = {}
        """What Kafka calls the topics, as they were listed last."""
        self._admin = self._client()
        self._group: ConsumerGroup | None = None

    def close(self) -> None:
        """Nothing can be asked any more."""
        admin.close(self._admin)
        if self._group is not None:
            self._group.close()

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
        """Lets librdkafka renew tokens, and say what is wrong. ConnectorError SS559 where a function gives none."""
        require_token(self._settings.properties)
        self._admin.poll(0)

    def _patiently(self, ask: Callable[[], _Answer], topics: Collection[str] = ()) -> _Answer:
        """What is answered once brokers have started, and leaders and coordinators are elected. ``topics``: those that
        are asked for, which may be gone meanwhile. ConnectorError SS590 where nothing is answered.
        """
        from confluent_kafka import KafkaError, KafkaException  # an optional package

        passing = (
            KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE,
            KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
            KafkaError._NOENT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN,  # _NOENT: no partition has a leader
        )  # fmt: skip
        deadline = time.monotonic() + _SECONDS
        while True:
            self._serve()
            try:
                return ask()
            except KafkaException as error:
                passes = is_of_coordinator(error.args[0]) or error.args[0].code() in passing
                passes = passes and time.monotonic() < deadline
                if not passes or {*topics} - self._listed_again({*topics}):
                    with self._asking():
                        raise
            time.sleep(0.1)

    def _listed_again(self, topics: set[str]) -> set[str]:
        """Which topics there are; the given ones where brokers do not answer. The client asks the leaders that it knew
        when it listed topics last, also after others were elected.
        """
        from confluent_kafka import KafkaException  # an optional package

        try:
            return {*self._admin.list_topics(timeout=_AGAIN_SECONDS).topics}
        except KafkaException:
            return topics

    def first_position(self) -> Position:
        """Where a job without checkpoint begins, and where a bounded table ends.

        ConnectorError SS504 where a partition ends before the offset at which the table should begin or end, or does
        not exist.
        """
        found = self._existing()
        self._require_named(found)
        stop_at = self._settings.stop
        if stop_at is not None and stop_at.mode == "specific-offsets":  # as in Flink, others are not read
            found = [p for p in found if p.number in stop_at.offsets]
        begin = self._within(self._at(self._settings.start, found))
        if stop_at is None:
            return Position(begin, ids=self.ids)
        stop = self._at(stop_at, found)
        self._require_reached(stop)
        return Position(begin, stop, ids=self.ids)

    def _require_named(self, found: Collection[Partition]) -> None:
        """Flink ignores offsets of partitions that do not exist: a wrong number would begin or end elsewhere."""
        numbers = {partition.number for partition in found}
        for bound, when in ((self._settings.start, "startup"), (self._settings.stop, "bounded")):
            others = sorted({*bound.offsets} - numbers) if bound is not None else []
            if others:
                topic = self._settings.topics[0]
                names = ", ".join(f"{topic}[{number}]" for number in others)
                message = f'partitions that "scan.{when}.specific-offsets" names do not exist: {names}'
                hint = f'Topic "{topic}" has the partitions {", ".join(map(str, sorted(numbers)))}.'
                raise ConnectorError(WRONG_VALUE, message, hint=hint)

    def _within(self, begin: dict[Partition, int]) -> dict[Partition, int]:
        """Where a table begins. An offset that its partition does not have is replaced as the client of Kafka would
        ("auto.offset.reset"). Without that, one after the end is refused, and one that retention has removed is left
        for ``latest`` to find.
        """
        if self._settings.start.mode not in ("specific-offsets", "group-offsets"):
            return begin
        earliest, ends = self._offsets(begin, admin.earliest()), self._offsets(begin, admin.latest(), uncommitted=True)
        outside = [p for p, offset in begin.items() if not earliest[p] <= offset <= ends[p]]
        if self._settings.reset != "none":
            return begin | self._offsets(outside, self._reset_spec)
        for p in outside:
            if begin[p] > ends[p] and self._settings.start.mode == "specific-offsets":
                message = (
                    f"{p.topic}[{p.number}] ends at offset {ends[p]}, and the table should begin at {begin[p]} "
                    "('scan.startup.specific-offsets')"
                )
                hint = "Write an offset that is there, or set 'properties.auto.offset.reset' = 'earliest' or 'latest'."
                raise ConnectorError(WRONG_VALUE, message, hint=hint)
        return begin

    @property
    def _reset_spec(self) -> Any:
        return admin.earliest() if self._settings.reset == "earliest" else admin.latest()

    def _require_reached(self, stop: Offsets) -> None:
        ends = self._offsets(stop, admin.latest(), uncommitted=True)
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
        ahead = [p for p in there if at[p] > latest[p]]  # within a transaction that is open, as groups may have read
        ends = {p: latest[p] for p in there} | self._offsets(ahead, admin.latest(), uncommitted=True)
        losses = lost(at, {p: earliest[p] for p in there}, ends)
        losses = [
            loss
            for loss in losses
            if position.stop is None or at[loss.partition] < position.stop.get(loss.partition, 0)
        ]
        self._accept(losses)
        begun = after_losses({p: earliest[p] for p in new}, losses, earliest)
        gone = [p for p in self._named(position.next) if p not in known and self._misses(p, position)]
        if gone and not self._settings.skips_lost:
            raise losing(f"{gone[0].topic}[{gone[0].number}] does not exist any more")
        return latest, begun

    def ends(self, latest: Offsets) -> Offsets:
        """Where partitions end with the messages of open transactions. ``latest``: where they end without."""
        return self._offsets(latest, admin.latest(), uncommitted=True) if self._reads_committed else latest

    def _bounds(self, position: Position) -> tuple[list[Partition], dict[Partition, int], dict[Partition, int]]:
        """The partitions to read, and where each begins and ends. A list that names what is gone is made again."""
        while True:
            known = self._partitions(position.next)
            known = known if position.stop is None else [p for p in known if p in position.next]
            again = self._listed is not None and self._listed[0] < time.monotonic() - 1
            try:
                return known, self._offsets(known, admin.earliest()), self._offsets(known, admin.latest())
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

    def _existing(self) -> list[Partition]:
        """The partitions of the topics. ConnectorError SS590 where one of these does not exist."""
        found = self._partitions()
        missing = [name for name in self._settings.topics if all(p.topic != name for p in found)]
        if missing:
            message = f'topic "{missing[0]}" does not exist'
            hint = (
                "Create it, or correct the option \"topic\": 'sqlstream topics' lists those that there are, and "
                "'topic-pattern' waits for topics to appear."
            )
            raise ConnectorError(UNREACHABLE, message, hint=hint)
        return found

    def _partitions(self, known: Iterable[Partition] = ()) -> list[Partition]:
        """The partitions of the topics, as they were at most so long ago as ``discovery_ms`` says."""
        now = time.monotonic()
        if self._listed is None or now - self._listed[0] > self._settings.discovery_ms / 1000:
            found = self._whole_list({*self._named(known)})
            self._listed = (now, found)
            self.ids = self._ids({p.topic for p in found})
        return self._listed[1]

    def _named(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of topics that the table still names. A position keeps others, should they come again."""
        return [p for p in partitions if self._is_of_table(p.topic)]

    def _is_of_table(self, topic: str) -> bool:
        pattern = self._settings.pattern
        if pattern is None:
            return topic in self._settings.topics
        return topic not in _OF_KAFKA and re.fullmatch(pattern, topic) is not None

    def _whole_list(self, known: set[Partition]) -> list[Partition]:
        """A list with those that are ``known``, unless they stay away: it may be incomplete while brokers start."""
        found, deadline = self._list(), time.monotonic() + _INCOMPLETE_SECONDS
        while (known - {*found} - self._gone or self._has_gaps(found)) and time.monotonic() < deadline:
            time.sleep(0.5)
            found = self._list()
        self._gone = known - {*found}
        return found

    @staticmethod
    def _has_gaps(found: Collection[Partition]) -> bool:
        """Whether a list lacks partitions of a topic: they are numbered from 0 on, and none is ever taken away."""
        ends: dict[str, int] = {}
        for topic, number in found:
            ends[topic] = max(number + 1, ends.get(topic, 0))
        return sum(ends.values()) != len(found)

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
        return sorted(Partition(name, n) for name in filter(self._is_of_table, topics) for n in topics[name].partitions)

    # --- offsets --------------------------------------------------------------------------------------------------

    def _at(self, bound: Bound, partitions: list[Partition]) -> dict[Partition, int]:
        """The offsets of a bound; the earliest of partitions that ``specific-offsets`` do not name."""
        match bound.mode:
            case "earliest-offset":
                return self._offsets(partitions, admin.earliest())
            case "latest-offset":
                return self._offsets(partitions, admin.latest())
            case "timestamp":
                assert bound.millis is not None
                at_time = self._offsets(partitions, admin.at_time(bound.millis), by_time=True)
                behind_all = self._offsets([p for p in partitions if at_time[p] < 0], admin.latest())
                return {**at_time, **behind_all}
            case "specific-offsets":
                unnamed = self._offsets([p for p in partitions if p.number not in bound.offsets], admin.earliest())
                return {**{p: bound.offsets[p.number] for p in partitions if p.number in bound.offsets}, **unnamed}
            case _:
                return self._of_group(partitions)

    @property
    def _reads_committed(self) -> bool:
        return self._settings.properties.get("isolation.level", "").lower() != "read_uncommitted"

    def _offsets(
        self, partitions: Collection[Partition], spec: Any, *, uncommitted: bool = False, by_time: bool = False
    ) -> dict[Partition, int]:
        """The offsets of ``spec``. ``uncommitted``: messages of open transactions are there, too. ``by_time``: less
        than 0 where no message is so late.
        """
        from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition  # an optional package

        asked = {TopicPartition(p.topic, p.number): spec for p in partitions}
        if not asked:
            return {}
        committed = self._reads_committed and not uncommitted
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[Partition, int]:
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=_SECONDS)
            offsets = {Partition(tp.topic, tp.partition): answer.result().offset for tp, answer in answers.items()}
            if not by_time and min(offsets.values()) < 0:
                # While a leader is changed or stands still, "unknown" may come without an error: it is no offset.
                raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
            return offsets

        return self._patiently(ask, {p.topic for p in partitions})

    def held(self) -> list[HeldPartition]:
        """The partitions of the topics: what they hold, and what the consumer group has committed of them."""
        known = self._existing()
        earliest, latest = self._offsets(known, admin.earliest()), self._offsets(known, admin.latest())
        committed = self._committed(known) if self._settings.group is not None else {}
        committed = {p: offset for p, offset in committed.items() if offset >= 0}
        return [HeldPartition(p, earliest[p], latest[p], committed.get(p)) for p in known]

    def _committed(self, partitions: list[Partition]) -> dict[Partition, int]:
        """What the consumer group has committed; less than 0 for partitions of which it has nothing."""
        return self._patiently(lambda: self._known_group.committed(partitions, _SECONDS)) if partitions else {}

    @property
    def _known_group(self) -> ConsumerGroup:
        if self._group is None:
            assert self._settings.group is not None
            self._group = ConsumerGroup(self._settings.properties, self._settings.group, _COMMIT_SECONDS)
        return self._group

    def _of_group(self, partitions: list[Partition]) -> dict[Partition, int]:
        group, committed = self._settings.group, self._committed(partitions)
        missing = [p for p in partitions if committed.get(p, -1) < 0]
        if missing and self._settings.reset == "none":
            message = f'consumer group "{group}" has no offset of {missing[0].topic}[{missing[0].number}]'
            hint = "Add 'properties.auto.offset.reset' = 'earliest' or 'latest', or choose another startup mode."
            raise ConnectorError(NO_OFFSETS, message, hint=hint)
        given = {p: committed[p] for p in partitions if p not in missing}
        return given | self._offsets(missing, self._reset_spec)

    def commit(self, offsets: Offsets) -> bool:
        """Commits offsets of the consumer group, for those who watch its lag. The job does not depend on them: where
        brokers do not take them, the answer is False, and the log has a warning.
        """
        from confluent_kafka import KafkaException  # an optional package

        if self._settings.group is None or not self._settings.commits or not offsets:
            return True
        try:
            self._known_group.commit(offsets)
        except KafkaException as error:
            LOG.warning(
                'offsets of consumer group "%s" are not committed yet: %s', self._settings.group, reason_of(error)
            )
            return False
        return True


def _hear(refusals: list[str], error: KafkaError) -> None:
    """Keeps why brokers refuse us, of which what a request fails with says nothing."""
    from confluent_kafka import KafkaError  # an optional package

    if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        refusals[:] = [error.str()]
