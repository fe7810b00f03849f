"""Positions in the partitions of Kafka topics: where a job begins and ends, and what a micro-batch reads."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


Offsets = Mapping[Partition, int]
"""The offset of a message in each partition: the next one that is read, or the first one that is not."""


class OffsetRange(NamedTuple):
    """The messages of a partition from offset ``begin`` to before ``end``. ``id``: what Kafka calls the topic; None
    where it does not say so.
    """

    partition: Partition
    begin: int
    end: int
    id: str | None = None

    def __str__(self) -> str:
        return f"{self.partition.topic}[{self.partition.number}] {self.begin}–{self.end - 1}"


@dataclass(frozen=True)
class Position:
    """How far a job has read, as its checkpoint has it. ``stop``: where a bounded table ends, which is decided when the
    job starts for the first time; None for tables without end. ``begun``: where partitions begin that are in ``next``
    for the first time.

    For tables whose partitions have watermarks (``watermarks``), in microseconds since 1970: ``times``, the
    newest event time of each partition, and ``lift``, which the watermark may reach; and the partition that holds it.
    ``lifts``: the table whose watermark the job is to lift, because no row of the micro-batch says how far it may go.

    ``ids``: what Kafka calls each topic, by which one that was deleted and made again is known for another.
    """

    next: Offsets
    stop: Offsets | None = None
    begun: Offsets = field(default_factory=dict)
    times: Offsets = field(default_factory=dict)
    lift: int | None = None
    holder: Partition | None = None
    lifts: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The position as Spark's offset log holds it."""
        stop = {} if self.stop is None else {"stop": _to_json(self.stop)}
        begun = {"begun": _to_json(self.begun)} if self.begun else {}
        times = {"times": _to_json(self.times)} if self.times else {}
        lift = {} if self.lift is None else {"lift": self.lift}
        holder = {} if self.holder is None else {"holder": [*self.holder]}
        lifts = {} if self.lifts is None else {"lifts": self.lifts}
        ids = {"ids": dict(sorted(self.ids.items()))} if self.ids else {}
        return {"next": _to_json(self.next), **stop, **begun, **times, **lift, **holder, **lifts, **ids}

    @staticmethod
    def of_json(value: Mapping[str, Any]) -> Position:
        stop, holder = value.get("stop"), value.get("holder")
        return Position(
            _of_json(value["next"]),
            None if stop is None else _of_json(stop),
            _of_json(value.get("begun", {})),
            _of_json(value.get("times", {})),
            value.get("lift"),
            None if holder is None else Partition(*holder),
            value.get("lifts"),
            dict(value.get("ids", {})),
        )

    def advanced(self, latest: Offsets, most: int | None, begun: Offsets) -> Position:
        """The position after one micro-batch that reads up to ``latest``, at most ``most`` messages and little more.

        ``begun``: where partitions begin that are new, or go on that have lost messages. With a bound each partition
        gets a share of it by how much is waiting there, but at least one message, so that none is left behind.
        """
        begins = {**self.next, **begun}
        ends = latest if self.stop is None else {p: min(end, self.stop.get(p, 0)) for p, end in latest.items()}
        waiting = {p: max(0, ends.get(p, 0) - begin) for p, begin in begins.items()}
        total = sum(waiting.values())
        if most is not None and total > most:
            waiting = {p: min(count, -(-count * most // total)) for p, count in waiting.items()}
        after = {p: begin + waiting[p] for p, begin in begins.items()}
        is_other = begun or after != dict(self.next)
        return replace(self, next=after, begun=begun) if is_other else self

    def of_topics(self, ids: Mapping[str, str], known: Collection[Partition]) -> Position:
        """The position with the ids of topics as they are now. Of a topic that was made again, partitions that it does
        not have are forgotten: when they are added they have other messages than those that were read.
        """
        others = {topic for topic, number in self.ids.items() if ids.get(topic, number) != number}
        left = {p: offset for p, offset in self.next.items() if p.topic not in others or p in known}
        return replace(self, next=left, ids={**self.ids, **ids})


def ranges(start: Position, end: Position) -> list[OffsetRange]:
    """What is between two positions, in the order of topics and partitions."""
    if start == end:
        return []
    begins = {**start.next, **end.begun}
    between = (OffsetRange(p, begins.get(p, 0), stop, end.ids.get(p.topic)) for p, stop in sorted(end.next.items()))
    return [r for r in between if r.begin < r.end]


def shared_out(all_ranges: Sequence[OffsetRange], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """Shares ranges out among tasks, the largest first, each to the task with the fewest messages so far."""
    shares: list[list[OffsetRange]] = [[] for _ in range(max(1, min(tasks, len(all_ranges))))]
    counts = [0] * len(shares)
    for r in sorted(all_ranges, key=lambda r: r.begin - r.end):
        least = counts.index(min(counts))
        shares[least].append(r)
        counts[least] += r.end - r.begin
    return [tuple(share) for share in shares if share]


@dataclass(frozen=True)
class Lost:
    """Messages that were to be read and are gone: ``begin`` to before ``end``."""

    partition: Partition
    begin: int
    end: int

    def __str__(self) -> str:
        name = f"{self.partition.topic}[{self.partition.number}]"
        if self.end <= self.begin:
            return f"{name} ends at offset {self.end} now, and was read up to {self.begin}"
        gone = f"{self.end - self.begin} are gone"
        return f"{name} begins at offset {self.end} now, and was read up to {self.begin}: {gone}"


def lost(at: Offsets, earliest: Offsets, latest: Offsets) -> list[Lost]:
    """What retention, or another topic of the same name, has taken from those who go on ``at`` these offsets."""
    behind = [Lost(p, at[p], first) for p, first in sorted(earliest.items()) if p in at and at[p] < first]
    beyond = [Lost(p, at[p], last) for p, last in sorted(latest.items()) if p in at and at[p] > last]
    return behind + beyond


def after_losses(at: Offsets, losses: Iterable[Lost], earliest: Offsets) -> dict[Partition, int]:
    """The offsets from which those go on who accept the losses."""
    return {**at, **{loss.partition: earliest.get(loss.partition, 0) for loss in losses}}


# --- settings ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """Where a table begins or ends: Flink's ``mode``, with its time or its offsets by partition."""

    mode: str
    millis: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicSettings:
    """Which messages a table has. ``properties``: those of librdkafka. ``pattern``: of topics, in place of ``topics``.
    ``commits``: whether what is written is committed for the ``group``. ``reset``: where partitions begin that lack
    the offset of the start, of a group or a specific one: ``earliest``, ``latest`` or ``none``. ``most``: the most
    messages of a micro-batch, which should take no longer than ``wanted_ms`` (``sources.pace.Pace``), and
    ``most_bytes`` those of their keys and values, as far as a few tell their size. ``discovery_ms``: how often new
    partitions are looked for.
    """

    properties: Mapping[str, str] = field(repr=False)
    topics: tuple[str, ...]
    pattern: str | None
    group: str | None
    start: Bound
    stop: Bound | None
    reset: str
    most: int | None
    discovery_ms: int
    skips_lost: bool
    wanted_ms: int = 0
    most_bytes: int | None = None
    commits: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of_json(text: str) -> TopicSettings:
        given = json.loads(text)
        start, stop = given.pop("start"), given.pop("stop")
        topics = tuple(given.pop("topics"))
        return TopicSettings(**given, topics=topics, start=_bound(start), stop=None if stop is None else _bound(stop))


def _bound(given: Mapping[str, Any]) -> Bound:
    return Bound(given["mode"], given["millis"], {int(n): offset for n, offset in given["offsets"].items()})


# --- offsets in options -----------------------------------------------------------------------------------------


def specific_offsets(text: str) -> dict[int, int]:
    """Reads Flink's ``partition:0,offset:42;partition:1,offset:300``. ValueError for another text."""
    offsets: dict[int, int] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(";"))):
        words = dict(word.split(":", 1) for word in pair.replace(" ", "").split(","))
        if set(words) != {"partition", "offset"}:
            raise ValueError(pair)
        partition, offset = int(words["partition"]), int(words["offset"])
        if partition < 0 or offset < 0 or partition in offsets:
            raise ValueError(pair)
        offsets[partition] = offset
    if not offsets:
        raise ValueError(text)
    return offsets


# --- JSON -------------------------------------------------------------------------------------------------------


def _to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(number)] = offset
    return topics


def _of_json(value: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {Partition(topic, int(n)): offset for topic, numbers in value.items() for n, offset in numbers.items()}
