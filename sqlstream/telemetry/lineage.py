"""Events of OpenLineage: which datasets a job reads and writes, column by column, from its start to its end.

https://openlineage.io/docs/spec says what they consist of.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from sqlstream.functions.aggregates import AGGREGATES
from sqlstream.jobs.lifecycle.observers import ObservedJob, Report
from sqlstream.jobs.reports.progress import Progress
from sqlstream.planner.catalog import Table
from sqlstream.planner.fields import qualified
from sqlstream.planner.lineage import columns_read, lineage, without_texts
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.plans import side_tables
from sqlstream.telemetry.dataset_names import dataset_name
from sqlstream.version import __version__

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError

Event = Mapping[str, Any]

PRODUCER = f"urn:sqlstream:{__version__}"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "ErrorMessageRunFacet": "1-0-1",
    "InputStatisticsInputDatasetFacet": "1-0-0",
    "JobTypeJobFacet": "2-0-4",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
    "ProcessingEngineRunFacet": "1-1-1",
    "SQLJobFacet": "1-1-0",
    "SchemaDatasetFacet": "1-2-0",
}
"""The versions of the facets that events have."""


def _facet(kind: str, **values: Any) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{_VERSIONS[kind]}/{kind}.json#/$defs/{kind}"
    return {"_producer": PRODUCER, "_schemaURL": url, **values}


# --- Datasets --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Datasets:
    """What a plan reads and writes. ``lineage``: for each written table its columns, each with the columns of read
    tables that it is computed from, as (table, column, expression).
    """

    read: tuple[Table, ...]
    written: tuple[Table, ...]
    lineage: Mapping[str, Mapping[str, tuple[tuple[str, str, str], ...]]]


def datasets_of(plan: Node) -> Datasets:
    """The datasets of a plan. Tables of side outputs have no lineage by column."""
    read = {table.name: table for node in plan.walk() if (r := node.table_read) is not None for table in (r[0],)}
    inserts = plan.inserts if isinstance(plan, StatementSet) else (plan,) if isinstance(plan, Insert) else ()
    written = {insert.table.name: insert.table for insert in inserts}
    written |= {table.name: table for table in side_tables(plan)}
    columns: dict[str, dict[str, tuple[tuple[str, str, str], ...]]] = {}
    for insert in inserts:
        of_table = columns.setdefault(insert.table.name, {})
        for column, sources in _columns(insert):
            of_table[column] = tuple(dict.fromkeys((*of_table.get(column, ()), *sources)))
    return Datasets(tuple(read.values()), tuple(written.values()), columns)


def _columns(insert: Insert) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    known = columns_read(insert)
    for line in lineage(insert):
        yield line.column, [(*known[source], line.expression) for source in line.sources]


_AGGREGATION = re.compile(rf"\b(?:{'|'.join(sorted(re.escape(f.name) for f in AGGREGATES))})\(", re.IGNORECASE)


def transformation_of(expression: str, source: str) -> dict[str, Any]:
    """What an expression does to a column with its table, in the specification's words."""
    if expression == source:
        return {"type": "DIRECT", "subtype": "IDENTITY"}
    kind = "AGGREGATION" if _AGGREGATION.search(without_texts(expression)) else "TRANSFORMATION"
    return {"type": "DIRECT", "subtype": kind, "description": expression}


# --- Events ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineageOfJob:
    """Makes the events of one run of a job. ``sql``: its statement, without secrets."""

    name: str
    run: UUID
    datasets: Datasets
    namespace: str
    sql: str
    streaming: bool

    def event(
        self, kind: str, at: datetime, facets: Mapping[str, Any] | None = None, counts: Progress | None = None
    ) -> Event:
        """An event. ``kind``: START, RUNNING and so on. ``facets``: more of the run. ``counts``: the rows that were
        read and written since the event before.
        """
        engine = _facet(
            "ProcessingEngineRunFacet", name="spark", version=_spark_version(), openlineageAdapterVersion=__version__
        )
        return {
            "eventType": kind,
            "eventTime": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "producer": PRODUCER,
            "schemaURL": _RUN_EVENT,
            "run": {"runId": str(self.run), "facets": {"processing_engine": engine, **(facets or {})}},
            "job": {"namespace": self.namespace, "name": self.name, "facets": self._job_facets()},
            "inputs": [self._input(table, counts) for table in self.datasets.read],
            "outputs": [self._output(table, counts) for table in self.datasets.written],
        }

    def _job_facets(self) -> dict[str, Any]:
        kind = "STREAMING" if self.streaming else "BATCH"
        facet = _facet("JobTypeJobFacet", processingType=kind, integration="SQLSTREAM", jobType="JOB")
        return {"jobType": facet, "sql": _facet("SQLJobFacet", query=self.sql, dialect="sqlstream")}

    def _input(self, table: Table, counts: Progress | None) -> dict[str, Any]:
        rows = None if counts is None else counts.read_by_table.get(table.name)
        more = {} if rows is None else {"inputStatistics": _facet("InputStatisticsInputDatasetFacet", rowCount=rows)}
        return {**self._dataset(table), "inputFacets": more}

    def _output(self, table: Table, counts: Progress | None) -> dict[str, Any]:
        dataset = self._dataset(table)
        lines = self.datasets.lineage.get(table.name)
        if lines:
            fields = {column: {"inputFields": self._fields(sources)} for column, sources in lines.items()}
            dataset["facets"]["columnLineage"] = _facet("ColumnLineageDatasetFacet", fields=fields)
        rows = None if counts is None else self._written(table, counts)
        more = {} if rows is None else {"outputStatistics": _facet("OutputStatisticsOutputDatasetFacet", rowCount=rows)}
        return {**dataset, "outputFacets": more}

    def _written(self, table: Table, counts: Progress) -> int | None:
        """The rows written to a table; those of side outputs are not counted."""
        if counts.rows_by_table or table.name not in self.datasets.lineage:
            return counts.rows_by_table.get(table.name)
        return counts.rows_out

    def _dataset(self, table: Table) -> dict[str, Any]:
        named = dataset_name(table, self.namespace)
        fields = [{"name": column.name, "type": str(column.type)} for column in table.physical_columns]
        schema = _facet("SchemaDatasetFacet", fields=fields)
        return {"namespace": named.namespace, "name": named.name, "facets": {"schema": schema}}

    def _fields(self, sources: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
        tables = {table.name: dataset_name(table, self.namespace) for table in self.datasets.read}
        return [
            {
                "namespace": tables[table].namespace,
                "name": tables[table].name,
                "field": column,
                "transformations": [transformation_of(expression, qualified(table, column))],
            }
            for table, column, expression in sources
        ]


def _spark_version() -> str:
    return version("pyspark")


def _since(now: Progress, before: Progress) -> Progress:
    """The rows that were read and written between two moments."""
    read = {table: rows - before.read_by_table.get(table, 0) for table, rows in now.read_by_table.items()}
    written = {table: rows - before.rows_by_table.get(table, 0) for table, rows in now.rows_by_table.items()}
    return Progress(rows_out=now.rows_out - before.rows_out, read_by_table=read, rows_by_table=written)


_ENDS = {"FINISHED": "COMPLETE", "STOPPED": "ABORT", "FAILED": "FAIL"}


class LineageObserver:
    """Sends the events of a job: START, RUNNING after an epoch and ``interval_s`` at most, and COMPLETE, ABORT or FAIL.

    A failure after which the job restarts is an event OTHER with its message.
    """

    def __init__(self, send: Callable[[Event], None], namespace: str, sql: str, interval_s: float) -> None:
        self._send, self._namespace, self._sql, self._interval_s = send, namespace, sql, interval_s
        self._lineage: LineageOfJob | None = None
        self._counted = Progress()
        self._sent_at = time.monotonic()

    def on_start(self, job: ObservedJob) -> None:
        """Send START. A run is one start of the job in one process."""
        run = uuid5(NAMESPACE_URL, f"{job.id}/{job.started.isoformat()}")
        streaming = not job.plan.bounded
        self._lineage = LineageOfJob(job.name, run, datasets_of(job.plan), self._namespace, self._sql, streaming)
        self._send(self._lineage.event("START", job.started))

    def on_epochs(self, job: ObservedJob, reports: Sequence[Report]) -> None:
        """Send RUNNING, if the last event is old enough."""
        if time.monotonic() - self._sent_at >= self._interval_s:
            self._event(job, "RUNNING")

    def on_failure(self, job: ObservedJob, error: SqlStreamError) -> None:
        """Send OTHER with the error."""
        self._event(job, "OTHER", _error_facet(error))

    def on_end(self, job: ObservedJob) -> None:
        """Send the event of the end."""
        facets = {} if job.exception is None else _error_facet(job.exception)
        self._event(job, _ENDS[str(job.state.value)], facets)

    def _event(self, job: ObservedJob, kind: str, facets: Mapping[str, Any] | None = None) -> None:
        if self._lineage is not None:
            now = job.progress()
            self._send(self._lineage.event(kind, datetime.now(UTC), facets, _since(now, self._counted)))
            self._counted, self._sent_at = now, time.monotonic()


def _error_facet(error: SqlStreamError) -> dict[str, Any]:
    message = f"{error.code}: {error.diagnostic.message}"
    return {"errorMessage": _facet("ErrorMessageRunFacet", message=message, programmingLanguage="SQL")}
