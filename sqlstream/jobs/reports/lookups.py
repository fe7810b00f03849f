"""The requests and latencies of a job's lookups, from the metrics of Spark's micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlstream.jobs.reports.observed import counts_of, observed
from sqlstream.udfs.lookup import metrics

_LOOKUP = "lookup"


@dataclass(frozen=True)
class LookupTotals:
    """The totals of one lookup. ``counts`` are those of ``udfs.lookup.metrics``, by name."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def _count(self, name: str) -> int:
        return self.counts.get(name, 0)

    @property
    def requests(self) -> int:
        """Sent to the source, each attempt."""
        return self._count(metrics.REQUESTS)

    @property
    def rows(self) -> int:
        """Rows with a key to ask for."""
        return self._count(metrics.ANSWERS)

    @property
    def hits(self) -> int:
        """Rows that the cache has answered."""
        return self._count(metrics.HITS)

    @property
    def misses(self) -> int:
        """Rows that a cache was asked for in vain."""
        return self._count(metrics.MISSES)

    @property
    def hit_rate(self) -> float | None:
        """The share of rows that the cache has answered; None without a cache, and before the first row."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else None

    @property
    def retries(self) -> int:
        return self._count(metrics.RETRIES)

    @property
    def timeouts(self) -> int:
        return self._count(metrics.TIMEOUTS)

    @property
    def errors(self) -> int:
        """Rows whose lookup failed."""
        return self._count(metrics.ERRORS)

    @property
    def deferred(self) -> int:
        """Rows whose time was up and that went on waiting in state."""
        return self._count(metrics.DEFERRED)

    @property
    def max_in_flight(self) -> int:
        """The most requests of a task at the same time."""
        return self._count(metrics.MAX_IN_FLIGHT)

    @property
    def latencies(self) -> Mapping[str, float]:
        """``p50``, ``p95`` and ``p99`` of the requests, in ms; empty before the first answer."""
        return metrics.percentiles(self.counts)

    def __add__(self, other: LookupTotals) -> LookupTotals:
        added = {name: self._count(name) + other._count(name) for name in metrics.NAMES}
        added[metrics.MAX_IN_FLIGHT] = max(self.max_in_flight, other.max_in_flight)
        return LookupTotals({name: count for name, count in added.items() if count})


def lookups_of(report: Mapping[str, Any]) -> dict[int, LookupTotals]:
    """The counts of each lookup in a micro-batch by its number, which counts the lookups of a plan from the top."""
    return {int(number): _totals(metrics_of_lookup) for number, metrics_of_lookup in observed(report, _LOOKUP)}


def _totals(observed_metrics: Mapping[str, Any]) -> LookupTotals:
    counts = zip(metrics.NAMES, counts_of(observed_metrics, metrics.NAMES), strict=True)
    return LookupTotals({name: count for name, count in counts if count})


def added(left: Mapping[int, LookupTotals], right: Mapping[int, LookupTotals]) -> dict[int, LookupTotals]:
    none = LookupTotals()
    return {number: left.get(number, none) + right.get(number, none) for number in sorted({*left, *right})}
