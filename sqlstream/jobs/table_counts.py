"""How many rows a job has read, and a statement set has written to each of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from sqlstream.jobs.observed import counts_of, observed
from sqlstream.jobs.storage import Storage
from sqlstream.planner.lowering.columnar.from_files import METRIC as FILES_METRIC
from sqlstream.planner.lowering.columnar.from_files import MORE_ROWS
from sqlstream.planner.lowering.statement_set import TABLES_METRIC
from sqlstream.planner.nodes import Node, Scan, StatementSet


def rows_by_table(report: Mapping[str, Any]) -> dict[str, int]:
    """The rows of a micro-batch for each table of a statement set; empty for other jobs."""
    for names, metrics in observed(report, TABLES_METRIC):
        tables = names.split("/")
        counts = counts_of(metrics, [f"rows_{i}" for i in range(len(tables))])
        return {unquote(table): count for table, count in zip(tables, counts, strict=True)}
    return {}


def added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in dict.fromkeys([*left, *right])}


@dataclass(frozen=True)
class SourceCounts:
    """Where Spark counts the rows that a job reads.

    ``control`` is the path of its control rows, ``scans`` how often the queries of a statement set read each table, in
    the order of Spark's sources; empty for other jobs.
    """

    control: str
    scans: tuple[int, ...] = ()

    def rows(self, report: Mapping[str, Any]) -> int:
        """The rows that came in a micro-batch, without control rows.

        Spark counts those of one source once for each of its scans, and of files that an exchange reads the places,
        whose metric tells how many rows there are more. Rows that a source leaves out because of the filter of one
        query count less. A table in the memory of several jobs is several sources; where these cannot be told apart,
        the least count holds.
        """
        sources = [s for s in report["sources"] if self.control not in s["description"]]
        scans: Sequence[int] = self.scans
        if len(scans) != len(sources):
            scans = [min(scans, default=1)] * len(sources)
        seen = sum(int(source["numInputRows"]) // count for source, count in zip(sources, scans, strict=True))
        more = sum(sum(counts_of(metrics, (MORE_ROWS,))) for _, metrics in observed(report, FILES_METRIC))
        return seen + more


def source_counts_of(plan: Node, storage: Storage) -> SourceCounts:
    """Of the job that runs a plan with the checkpoint in ``storage``."""
    scans: tuple[int, ...] = ()
    if isinstance(plan, StatementSet):
        scans = tuple(Counter(node.table.name for node in plan.walk() if isinstance(node, Scan)).values())
    return SourceCounts(urlparse(storage.location("control")).path, scans)
