"""Ranges of offsets, read from a consumer that lives as long as its process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from sqlstream.errors import ConnectorError, repeating
from sqlstream.udfs.kafka.clients import UNREACHABLE, reason_of
from sqlstream.udfs.kafka.fetched import Fetched, FetchingConsumer, Notice, Slot
from sqlstream.udfs.kafka.tokens import LOG

LOST = repeating("SS592")

_PATIENCE_SECONDS = 120
_OPEN_SECONDS = 960
"""Brokers end a transaction after 15 minutes ("transaction.max.timeout.ms"), unless they are told otherwise."""
_BOUNDS_SECONDS = 30
_WAIT_SECONDS = 1.0
_MOST_AHEAD, _MOST_BYTES_AHEAD = 100_000, 32 << 20
"""So many messages, or bytes of them, are kept for later micro-batches; of more they are fetched again."""


class Span(NamedTuple):
    """The messages of a partition from offset ``begin`` to before ``end``. ``id``: what Kafka calls its topic, by which
    one that was deleted and made again is another; None where that is not known.
    """

    begin: int
    end: int
    id: str | None = None


_NOTHING = Span(0, -1)


def losing(what: str) -> ConnectorError:
    """SS592 for messages that are gone before they were read."""
    hint = "Start in a new directory ('execution.checkpointing.dir'), or let 'on-data-loss' = 'skip' go on behind them."
    return ConnectorError(LOST, f"messages are gone before they were read: {what}", hint=hint)


def lose(what: str, *, skips_lost: bool) -> None:
    """Tells the log of messages that are gone; ConnectorError SS592 unless the table ``skips_lost`` ones."""
    if not skips_lost:
        raise losing(what)
    LOG.warning("messages are gone before they were read: %s", what)


class Reader:
    """A consumer and the partitions that it has been given. It goes on where a micro-batch goes on from the last one,
    so that what librdkafka has fetched ahead is not fetched again.
    """

    def __init__(self, consumer: FetchingConsumer) -> None:
        self.consumer = consumer
        self.known: list[Slot] = []
        """The partitions to which ``Fetched.index`` points."""
        self._slot_of: dict[Slot, int] = {}
        self._ids: list[str | None] = []  # of their topics
        self._next = np.zeros(0, np.int64)  # the offsets that follow what was given
        self._reached = self._next  # before these offsets nothing more will come
        self._ahead: list[Fetched] = []
        self._left = np.zeros(0, bool)  # those of which nothing more is fetched

    def read(self, ranges: Mapping[Slot, Span], skips_lost: bool) -> Iterator[Fetched]:
        """The messages of the ranges, some at a time."""
        self._go_to(ranges)
        ends = np.array([ranges.get(slot, _NOTHING).end for slot in self.known], np.int64)
        wanted, heard = ends >= 0, time.monotonic()
        come, self._ahead = self._ahead, []
        while True:
            for fetched in come:
                heard = time.monotonic()
                given = self._early(fetched, ends)
                if len(given):
                    yield given
                    heard = time.monotonic()
                for notice in fetched.notices:
                    self._heed(notice, ends, skips_lost)
            missing = wanted & (self._reached < ends)
            if not missing.any():
                break
            if self._is_far_ahead:
                self._leave(~missing)
            silent = time.monotonic() - heard
            if silent > _PATIENCE_SECONDS:
                self._require_patience(int(np.flatnonzero(missing)[0]), ends, silent)
            fetched = self.consumer.fetch(self._slot_of, _WAIT_SECONDS)
            come = [fetched] if len(fetched) or fetched.notices else []
        self._next = np.where(wanted, ends, self._next)

    def _go_to(self, ranges: Mapping[Slot, Span]) -> None:
        if not self._is_far_ahead and all(self._is_at(slot, span) for slot, span in ranges.items()):
            return
        self.known = list(ranges)
        self._slot_of = {slot: index for index, slot in enumerate(self.known)}
        self._ids = [span.id for span in ranges.values()]
        self._next = np.array([span.begin for span in ranges.values()], np.int64)
        self._reached, self._ahead = self._next.copy(), []
        self._left = np.zeros(len(ranges), bool)
        self.consumer.assign((slot, span.begin) for slot, span in ranges.items())

    def _is_at(self, slot: Slot, span: Span) -> bool:
        """Whether what comes next of a partition is where a range begins."""
        index = self._slot_of.get(slot)
        if index is None or self._left[index] or self._ids[index] != span.id:
            return False
        return bool(self._next[index] == span.begin)

    @property
    def _is_far_ahead(self) -> bool:
        messages, size = sum(map(len, self._ahead)), sum(fetched.nbytes for fetched in self._ahead)
        return messages >= _MOST_AHEAD or size >= _MOST_BYTES_AHEAD

    def _leave(self, whole: np.ndarray) -> None:
        """Fetches nothing more of partitions that are read, while others are waited for, and drops what is ahead."""
        left = np.flatnonzero(whole & ~self._left).tolist()
        self.consumer.leave([self.known[index] for index in left])
        self._left[left] = True
        self._ahead = []

    def _early(self, fetched: Fetched, ends: np.ndarray) -> Fetched:
        """Those of the messages that come before ``ends``; the others are kept for later micro-batches."""
        index, offsets = fetched.index, fetched.offsets
        last = np.flatnonzero(np.append(index[1:] != index[:-1], True)) if len(fetched) else index
        np.maximum.at(self._reached, index[last], offsets[last] + 1)
        early = offsets < ends[index]
        if early.all():
            return fetched
        ahead = ~early & ~self._left[index]
        if ahead.any():
            self._ahead.append(fetched.where(ahead))
        return fetched.where(early)

    def _heed(self, notice: Notice, ends: np.ndarray, skips_lost: bool) -> None:
        from confluent_kafka import KafkaError  # an optional package

        gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)
        slot, index = notice.slot, self._slot_of.get(notice.slot)
        if index is not None and self._left[index]:
            return
        if notice.code == KafkaError._PARTITION_EOF:
            if index is None:
                return
            self._reached[index] = max(self._reached[index], notice.offset)
            if self._reached[index] < ends[index]:  # of before, or messages are gone
                self._require_there(slot, int(ends[index]), skips_lost)
        elif notice.code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) and index is not None:
            self._go_behind_loss(slot, int(ends[index]), skips_lost)
        elif notice.code in gone:
            if not skips_lost:
                raise losing(f"{slot[0]}[{slot[1]}] does not exist any more")
            if index is not None:
                self._reached[index] = max(self._reached[index], ends[index])
        else:
            of = f" of {slot[0]}[{slot[1]}]" if slot[0] else ""  # that of a login, or of a group, is about no partition
            raise ConnectorError(UNREACHABLE, f"Kafka gives no messages{of}: {notice.reason}")

    def _require_there(self, slot: Slot, end: int, skips_lost: bool) -> None:
        high = self._bounds(slot)[1]
        if high < end and self.consumer.known_end(slot) < end:  # else a transaction has not ended
            lose(f"{slot[0]}[{slot[1]}] ends at offset {high} now, not at {end}", skips_lost=skips_lost)
            self._reached[self._slot_of[slot]] = end

    def _go_behind_loss(self, slot: Slot, end: int, skips_lost: bool) -> None:
        index = self._slot_of[slot]
        low, high = self._bounds(slot)
        at = int(self._reached[index])
        begin = low if low > at else end
        what = f"begins at offset {low}" if low > at else f"ends at offset {high}"
        lose(f"{slot[0]}[{slot[1]}] {what} now, and was read up to {at}", skips_lost=skips_lost)
        self._reached[index] = min(begin, end) if end >= 0 else begin
        self.consumer.leave([slot])
        self.consumer.add(slot, begin)

    def _bounds(self, slot: Slot) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last. While leaders are elected the client fails, or
        answers without offsets, which must not be taken for messages that are gone.
        """
        from confluent_kafka import KafkaError, KafkaException  # an optional package

        deadline = time.monotonic() + _BOUNDS_SECONDS
        while True:
            reason, passes = "there are no offsets in the answer", True
            try:
                found = self.consumer.bounds(slot, _BOUNDS_SECONDS)
                if found is not None and min(found) >= 0:
                    return found
            except KafkaException as error:
                reason, passes = reason_of(error), error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART
            if not passes or time.monotonic() > deadline:
                message = f"Kafka does not say what {slot[0]}[{slot[1]}] holds: {reason}"
                hint = "Look whether its brokers run, and the partition has a leader."
                raise ConnectorError(UNREACHABLE, message, hint=hint)
            time.sleep(0.2)

    def _is_open(self, slot: Slot, end: int) -> bool:
        """Whether messages before ``end`` are there, but those of a transaction that has not ended are among them."""
        return self._bounds(slot)[1] < end <= self.consumer.known_end(slot)

    def _require_patience(self, index: int, ends: np.ndarray, silent: float) -> None:
        """Raises SS590 for a partition that has given nothing for so many seconds, unless a transaction may end."""
        slot, end = self.known[index], int(ends[index])
        message = (
            f"Kafka gave nothing of {slot[0]}[{slot[1]}] at offset {self._reached[index]} of {end} for {silent:.0f} s"
        )
        hint = "Look whether its brokers run, and the partition has a leader."
        if self._is_open(slot, end):
            if silent < _OPEN_SECONDS:
                return
            message += ": a transaction is open there"
            hint = "'kafka-transactions.sh find-hanging' shows it, and 'abort' ends it."
        raise ConnectorError(UNREACHABLE, message, hint=hint)
