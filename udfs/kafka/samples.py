"""A few messages of topics, fetched by who plans what tasks are to fetch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kafka.fetch import RANGES, FetchedMessages
from sqlstream.udfs.kafka.fetched import Slot
from sqlstream.udfs.kafka.reader import Span

_FETCHED_AHEAD = {"queued.max.messages.kbytes": "1024", "fetch.message.max.bytes": "262144"}
"""Tasks fetch the same messages; here nobody takes more of them than asked for."""

_OF_EACH, _PARTITIONS = 8, 4
"""Messages that are measured at most: so many of each of so many partitions."""

_LARGEST = 1 << 20
"""Bytes of a message, where brokers have their defaults."""
_SPREAD, _KNOWN_SECONDS = 64, 60.0


def sample(
    properties: Mapping[str, str], fields: tuple[str, ...], spans: Mapping[Slot, Span]
) -> Iterator[pa.RecordBatch]:
    """The messages of these spans, some at a time, without those that are gone. ``properties``: those of librdkafka.
    ``fields``: which of ``fetched.FIELDS`` they have.

    ConnectorError SS590 where the brokers do not give them.
    """
    if not spans:
        return
    rows = [(topic, span.id, number, span.begin, span.end, None) for (topic, number), span in spans.items()]
    columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), RANGES, strict=True)]
    fetched = FetchedMessages({**properties, **_FETCHED_AHEAD}, fields, skips_lost=True)
    yield from fetched.rows([pa.RecordBatch.from_arrays(columns, schema=RANGES)])


class SizeBound:
    """The bound of bytes of a source's micro-batches, as far as a few of their messages tell how large these are.

    Those are looked at where a micro-batch may have more than ``most`` bytes: where its messages would do if they were
    64 times as large as others were in the last minute, or, when none were looked at, as large as the brokers' defaults
    allow. ``properties``: those of librdkafka.
    """

    def __init__(
        self, properties: Mapping[str, str], most: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._properties, self._most, self._clock = properties, most, clock
        self._mean, self._looked = 0.0, -math.inf

    def fits(self, spans: Mapping[Slot, Span]) -> int | None:
        """How many messages of these spans a micro-batch may have; None for all of them.

        ConnectorError SS590 where the brokers do not give them.
        """
        count = sum(span.end - span.begin for span in spans.values())
        known = self._clock() - self._looked < _KNOWN_SECONDS
        if self._most is None or count * (min(_SPREAD * self._mean, _LARGEST) if known else _LARGEST) <= self._most:
            return None
        mean = self._mean_of(spans)
        if mean is not None:
            self._mean, self._looked = mean, self._clock()
        return None if count * self._mean <= self._most else max(1, int(self._most / self._mean))

    def _mean_of(self, spans: Mapping[Slot, Span]) -> float | None:
        """The mean bytes of keys and values of the first messages of the longest spans; None where these have none, as
        where transactions have ended.
        """
        longest = sorted(spans.items(), key=lambda item: item[1].begin - item[1].end)[:_PARTITIONS]
        firsts = {slot: span._replace(end=min(span.end, span.begin + _OF_EACH)) for slot, span in longest}
        count = total = 0
        for messages in sample(self._properties, ("key", "value"), firsts):
            count += messages.num_rows
            total += sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in messages.columns)
        return total / count if count else None
