"""The metrics of lookups, and percentiles of their latencies. Counts are summed over tasks, except for MAX_IN_FLIGHT.

A task emits its counts as one additional row, in which the METRICS column is set.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa

METRICS = "__lookup_metrics"
"""MAP<STRING, BIGINT> column of the operator's output: NULL but in the one row of a task that holds its counts."""

METRICS_TYPE = pa.map_(pa.string(), pa.int64())

REQUESTS = "requests"  # sent to the source, attempts each
ANSWERS = "answers"  # rows that asked: without NULL keys
HITS = "hits"  # rows answered from the cache
MISSES = "misses"  # rows for which a cache was there and had no answer
RETRIES = "retries"  # keys that were asked again
TIMEOUTS = "timeouts"  # rows whose time was up, also those that were deferred
ERRORS = "errors"  # rows whose lookup failed
DEFERRED = "deferred"  # rows that wait on in state
MAX_IN_FLIGHT = "max_in_flight"  # the most requests of a task at the same time

COUNTS = (REQUESTS, ANSWERS, HITS, MISSES, RETRIES, TIMEOUTS, ERRORS, DEFERRED)

BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)
"""Upper bounds of the buckets of latencies of requests; slower ones are in the last bucket, which has none."""

LATENCIES = (*(f"latency_le_{ms}" for ms in BUCKETS_MS), "latency_more")

NAMES = (*COUNTS, MAX_IN_FLIGHT, *LATENCIES)


def metric_key(lookup: int, name: str) -> str:
    """The name under which the metric ``name`` of a lookup is in the METRICS map. ``lookup`` is the number of the
    lookup in the plan.
    """
    return f"{lookup}/{name}"


def latency_bucket(ms: float) -> str:
    """The metric name that counts the requests whose latency falls into the same histogram bucket as ``ms``
    milliseconds.
    """
    return LATENCIES[bisect_left(BUCKETS_MS, ms)]


class Meter:
    """The metrics of one lookup in one task: counts by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: int = 1) -> None:
        """Adds ``value`` to the count ``name``."""
        self.counts[name] += value

    def sent(self, in_flight: int) -> None:
        """Counts a request; ``in_flight``: the number of requests in flight including it."""
        self.counts[REQUESTS] += 1
        self.counts[MAX_IN_FLIGHT] = max(self.counts[MAX_IN_FLIGHT], in_flight)

    def took(self, seconds: float) -> None:
        """Counts the latency of a request in its histogram bucket."""
        self.counts[latency_bucket(seconds * 1000)] += 1


def metrics_row(schema: pa.Schema, meters: Mapping[int, Meter]) -> pa.RecordBatch:
    """A batch with one row of ``schema``. Only its map column METRICS is set, to the counts of all lookups; ``meters``
    has them by the lookup's number in the plan.
    """
    counts = [
        (metric_key(lookup, name), meter.counts[name])
        for lookup, meter in meters.items()
        for name in NAMES
        if meter.counts[name]
    ]
    columns = [
        pa.array([counts], METRICS_TYPE) if column.name == METRICS else pa.nulls(1, column.type) for column in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def percentile(counts: Mapping[str, int], share: float) -> float | None:
    """The latency in milliseconds that the fraction ``share`` of the requests did not exceed, interpolated within its
    histogram bucket; None without requests.

    ``counts``: the number of requests by the bucket's metric name. For the last bucket only its lower bound is known.
    """
    of_bucket = [counts.get(name, 0) for name in LATENCIES]
    wanted = share * sum(of_bucket)
    if not wanted:
        return None
    lower = 0
    for upper, count in zip(BUCKETS_MS, of_bucket, strict=False):
        if count and wanted <= count:
            return lower + (upper - lower) * wanted / count
        wanted -= count
        lower = upper
    return float(lower)


def percentiles(counts: Mapping[str, int]) -> dict[str, float]:
    """A dictionary with the keys ``p50``, ``p95`` and ``p99``: the latencies in milliseconds. Empty without requests.
    ``counts``: the number of requests by histogram bucket (``latency_bucket``).
    """
    shares = {f"p{share}": percentile(counts, share / 100) for share in (50, 95, 99)}
    return {name: value for name, value in shares.items() if value is not None}
