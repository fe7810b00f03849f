"""Counts of a micro-batch, from the observed metrics (``DataFrame.observe``) of Spark's report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.jobs.lifecycle.runtime import Sources
from sqlstream.planner.catalog import Function, Table
from sqlstream.planner.lowering.columnar.inputs import METRIC as FILES_METRIC
from sqlstream.planner.lowering.columnar.inputs import ROWS as FILES_ROWS
from sqlstream.planner.lowering.outputs import TABLES_METRIC
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.lookup import metrics as lookup_metrics
from sqlstream.udfs.lookup.source import LookupSource
from sqlstream.udfs.texts import json_of


def observed(report: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the metrics in Spark's report of a micro-batch whose names begin with ``<kind>/``, each as a pair: the
    rest of its name, and its values.
    """
    for name, metrics in report.get("observedMetrics", {}).items():
        first, _, rest = name.partition("/")
        if first == kind:
            yield rest, metrics


def ends_of(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the positions of sources behind a micro-batch, of those that are objects of JSON."""
    for source in report.get("sources", ()):
        if (text := source.get("endOffset") or "")[:1] == "{":
            yield json_of(text)


def values_of(metrics: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The values of a metric with these names, as a list in their order. Spark Connect reports values without names, in
    the same order.
    """
    return list(metrics["values"]) if "values" in metrics else [metrics[name] for name in names]


def counts_of(metrics: Mapping[str, Any], names: Sequence[str]) -> list[int]:
    """The counts in a metric with these names, as a list in their order. NULL, which means no rows, is 0."""
    return [int(value or 0) for value in values_of(metrics, names)]


# --- Rows read and written -------------------------------------------------------------------------------------


SOURCE_METRIC, ROWS = "source", "rows"
"""The metric of a source is named ``source/<number>/<table>``."""


def rows_by_table(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns how many rows a micro-batch wrote into each table, for a job of a statement set; an empty dictionary for
    other jobs.

    ``report``: Spark's progress report of the micro-batch.
    """
    for names, metrics in observed(report, TABLES_METRIC):
        tables = names.split("/")
        counts = counts_of(metrics, [f"rows_{i}" for i in range(len(tables))])
        return {unquote(table): count for table, count in zip(tables, counts, strict=True)}
    return {}


def added_by_name(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """The sums of two dictionaries of counts, by key."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in dict.fromkeys([*left, *right])}


def rows_read(report: Mapping[str, Any]) -> int:
    """The number of rows that were read from the sources in a micro-batch, before any filter.

    A table that a query names twice is two sources and counts twice, but for files and topics, which are one. The
    queries of a statement set read each table once.
    """
    sources = ((SOURCE_METRIC, ROWS), (FILES_METRIC, FILES_ROWS))
    return sum(sum(counts_of(metrics, (rows,))) for kind, rows in sources for _, metrics in observed(report, kind))


def rows_read_by_table(report: Mapping[str, Any]) -> dict[str, int]:
    """Returns a dictionary from table to the number of its rows that were read in a micro-batch, counted as
    ``rows_read`` does.
    """
    counts: dict[str, int] = {}
    for kind, rows in ((SOURCE_METRIC, ROWS), (FILES_METRIC, FILES_ROWS)):
        for names, metrics in observed(report, kind):
            table = unquote(names.rpartition("/")[2])
            counts[table] = counts.get(table, 0) + sum(counts_of(metrics, (rows,)))
    return counts


@dataclass(frozen=True)
class CountedSources:
    """The sources of a job, each with a metric that counts its rows.

    Spark's own ``numInputRows`` does not count them: file readers drop rows that a filter above rejects before Spark
    counts, and a source that several branches read counts the rows of all branches. An observed metric is exact,
    because Spark moves no filter below it. That is also its cost: files are read whole where a filter would have let
    the reader skip rows, which takes up to twice the time where few rows pass. The count itself takes 0.05 to 0.2
    microseconds of processor time a row (measured: Parquet and JSON files into ``blackhole``).
    """

    sources: Sources
    numbers: count[int] = field(default_factory=count)

    @property
    def zone(self) -> str | None:
        """The time zone of the session, where Arrow knows it."""
        return self.sources.zone

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """Returns the rows of a scan as a DataFrame with an observed metric that counts them. ``in_order``: the query
        depends on the order of rows. ``located``: each row says in which file and line it was read.
        """
        name = f"{SOURCE_METRIC}/{next(self.numbers)}/{quote(scan.table.name, safe='')}"
        rows = self.sources.read(scan, in_order=in_order, located=located)
        return rows.observe(name, F.count(F.lit(1)).alias(ROWS))

    def reads_files(self, scan: Scan) -> bool:
        """True where tasks may read the files of a scan themselves, without Spark's reader."""
        return self.sources.reads_files(scan)

    def discards(self, table: Table) -> bool:
        """True where the sink of a table keeps no rows."""
        return self.sources.discards(table)

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Returns a streaming DataFrame of the file splits of a scan. The exchange that reads the files counts their
        rows. ``in_order``: the query depends on the order of rows.
        """
        return self.sources.places(scan, in_order=in_order)

    def record_format(self, scan: Scan) -> SplitFormat | None:
        """Returns how tasks read the records of a scan's files, or its messages; None for Parquet files."""
        return self.sources.record_format(scan)

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the requests of a lookup."""
        return self.sources.lookup(node)

    def function(self, name: str) -> Function | None:
        """Returns the user-defined function called ``name``; None where there is none."""
        return self.sources.function(name)

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        return self.sources.implementation(function)


# --- Requests and latencies of lookups -------------------------------------------------------------------------


_LOOKUP = "lookup"


@dataclass(frozen=True)
class LookupTotals:
    """The totals of one lookup. ``counts`` are by the names of ``udfs.lookup.metrics``."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def _count(self, name: str) -> int:
        return self.counts.get(name, 0)

    @property
    def requests(self) -> int:
        """Requests that were sent to the source, each attempt counted."""
        return self._count(lookup_metrics.REQUESTS)

    @property
    def rows(self) -> int:
        """Rows with a key to look up."""
        return self._count(lookup_metrics.ANSWERS)

    @property
    def hits(self) -> int:
        """Rows that were answered from the cache."""
        return self._count(lookup_metrics.HITS)

    @property
    def misses(self) -> int:
        """Rows that were not in the cache."""
        return self._count(lookup_metrics.MISSES)

    @property
    def hit_rate(self) -> float | None:
        """The share of rows that were answered from the cache; None without a cache, and before the first row."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else None

    @property
    def retries(self) -> int:
        """Requests that were sent again after a failure."""
        return self._count(lookup_metrics.RETRIES)

    @property
    def timeouts(self) -> int:
        """Rows whose answer did not arrive in time."""
        return self._count(lookup_metrics.TIMEOUTS)

    @property
    def errors(self) -> int:
        """Rows whose lookup failed."""
        return self._count(lookup_metrics.ERRORS)

    @property
    def deferred(self) -> int:
        """Rows that were not answered in time and wait in state."""
        return self._count(lookup_metrics.DEFERRED)

    @property
    def max_in_flight(self) -> int:
        """The largest number of concurrent requests of a task."""
        return self._count(lookup_metrics.MAX_IN_FLIGHT)

    @property
    def latencies(self) -> Mapping[str, float]:
        """``p50``, ``p95`` and ``p99`` of the requests, in ms; empty before the first answer."""
        return lookup_metrics.percentiles(self.counts)

    def __add__(self, other: LookupTotals) -> LookupTotals:
        added = {name: self._count(name) + other._count(name) for name in lookup_metrics.NAMES}
        added[lookup_metrics.MAX_IN_FLIGHT] = max(self.max_in_flight, other.max_in_flight)
        return LookupTotals({name: count for name, count in added.items() if count})


def lookups_of(report: Mapping[str, Any]) -> dict[int, LookupTotals]:
    """Returns a dictionary from the number of a lookup to its totals in one micro-batch. Lookups of a plan are numbered
    from its root.
    """
    return {int(number): _totals(metrics_of_lookup) for number, metrics_of_lookup in observed(report, _LOOKUP)}


def _totals(observed_metrics: Mapping[str, Any]) -> LookupTotals:
    counts = zip(lookup_metrics.NAMES, counts_of(observed_metrics, lookup_metrics.NAMES), strict=True)
    return LookupTotals({name: count for name, count in counts if count})


def added_lookups(left: Mapping[int, LookupTotals], right: Mapping[int, LookupTotals]) -> dict[int, LookupTotals]:
    """The sums of two dictionaries of lookup totals, by lookup."""
    none = LookupTotals()
    return {number: left.get(number, none) + right.get(number, none) for number in sorted({*left, *right})}
